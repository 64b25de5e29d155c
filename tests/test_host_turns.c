/* SPDX-License-Identifier: Apache-2.0 */
/* In which order mayfly agent pushes processes: no user makes the others wait. */
#include "fleet/host/host_turns.h"

#include <string.h>

#include "test.h"

#define MOST 400

static struct host_process all[MOST];
static struct host_process *list[MOST];
static size_t count;

static void add(uid_t owner, int64_t pushed_ns)
{
	all[count] = (struct host_process){.owner = owner, .pushed_ns = pushed_ns};
	list[count] = &all[count];
	count++;
}

static void one_of_each_user_at_a_time(void)
{
	struct host_process **turn;

	count = 0;
	for (int64_t i = 0; i < 300; i++)
		add(1000, 300 - i);
	add(1001, 1000);
	add(1001, 900);
	add(1002, 2000);
	turn = host_turns(list, count);
	CHECK(turn);
	/* The first ones, by how long they have waited; then the second ones. */
	CHECK(turn[0] == list[299] && turn[1] == list[301] && turn[2] == list[302]);
	CHECK(turn[3] == list[298] && turn[4] == list[300]);
	for (size_t i = 5; i < count; i++)
		CHECK(turn[i] == list[302 - i], "%zu", i);
	free(turn);
}

static void each_process_once(void)
{
	struct host_process **turn;
	uint64_t state = 7;

	count = 0;
	for (size_t i = 0; i < MOST; i++) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		add((uid_t)(state >> 60), (int64_t)(state >> 40) % 50);
	}
	turn = host_turns(list, count);
	for (size_t i = 0; i < count; i++) {
		size_t times = 0, before[16] = {0};

		for (size_t k = 0; k < count; k++)
			times += turn[k] == list[i];
		CHECK(times == 1);
		/* No user is more than one ahead of one that has more to come. */
		for (size_t k = 0; k <= i; k++)
			before[turn[k]->owner]++;
		for (size_t k = i + 1; k < count; k++)
			CHECK(before[turn[k]->owner] + 1 >= before[turn[i]->owner]);
	}
	free(turn);
	turn = host_turns(list, 0);
	CHECK(turn);
	free(turn);
}

int main(void)
{
	RUN(one_of_each_user_at_a_time);
	RUN(each_process_once);
	DONE();
}
