/* SPDX-License-Identifier: Apache-2.0 */
/* Which container and pod a control group is of, as the runtimes name them. */
#include "fleet/host/host_container.h"

#include <string.h>

#include "test.h"

#define ID  "4f2c1d9e8b7a60514f2c1d9e8b7a60514f2c1d9e8b7a60514f2c1d9e8b7a6051"
#define UID "0a1b2c3d-1111-2222-3333-444455556666"

static void containers_of_the_runtimes(void)
{
	static const struct {
		const char *cgroup, *container, *pod;
	} rows[] = {
	    {"/docker/" ID, "4f2c1d9e8b7a", NULL},
	    {"/system.slice/docker-" ID ".scope", "4f2c1d9e8b7a", NULL},
	    {"/machine.slice/libpod-" ID ".scope/container", "4f2c1d9e8b7a", NULL},
	    {"/kubepods/burstable/pod" UID "/" ID, "4f2c1d9e8b7a", UID},
	    {"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-"
	     "pod0a1b2c3d_1111_2222_3333_444455556666.slice/cri-containerd-" ID ".scope",
	     "4f2c1d9e8b7a", UID},
	    {"/../crio-" ID ".scope", "4f2c1d9e8b7a", NULL},
	    /* The innermost one, of Docker in Docker. */
	    {"/docker/0000000000000000000000000000000000000000000000000000000000000000/docker/" ID,
	     "4f2c1d9e8b7a", NULL},
	    {"/system.slice/api.service", NULL, NULL},
	    {"/user.slice/podman/" UID, NULL, NULL},
	    {"/x/" ID "0", NULL, NULL},
	    {"/pod0a1b2c3d-1111-2222-3333-44445555666", NULL, NULL},
	    {"/pod", NULL, NULL},
	    {"", NULL, NULL},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char id[HOST_CONTAINER_DIGITS + 1] = "", uid[HOST_POD_BYTES + 1] = "";

		CHECK(host_container_of(rows[i].cgroup, id) == (rows[i].container != NULL), "(%s)",
		      rows[i].cgroup);
		CHECK(!rows[i].container || strcmp(id, rows[i].container) == 0, "(%s)", id);
		CHECK(host_pod_of(rows[i].cgroup, uid) == (rows[i].pod != NULL), "(%s)",
		      rows[i].cgroup);
		CHECK(!rows[i].pod || strcmp(uid, rows[i].pod) == 0, "(%s)", uid);
	}
}

int main(void)
{
	RUN(containers_of_the_runtimes);
	DONE();
}
