#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""doc/CONTAINERS.md and packaging/kubernetes: each command, option, path and variable that they name is one, and
the image of scripts/make-image works as a root."""
import glob
import json
import os
import re
import shutil
import stat

from harness import AGENT, BUILD, MAYFLY, SOURCE, Folder, Skip, case, check, environment, main, mayfly, need, read, run, same

KUBERNETES = os.path.join(SOURCE, "packaging", "kubernetes")


def yaml():
    try:
        import yaml as module
    except ImportError as missing:
        raise Skip("python3-yaml is not installed") from missing
    return module


def document(name):
    return read(os.path.join(SOURCE, name)).decode()


def manifest(name):
    with open(os.path.join(KUBERNETES, name)) as file:
        return yaml().safe_load(file)


def pods():
    """(name, pod spec) of each manifest, and of the YAML in the document."""
    found = [(name, manifest(name)["spec"]["template"]["spec"]) for name in ("daemonset.yaml", "app-patch.yaml")]
    blocks = re.findall(r"^```yaml\n(.*?)^```", document("doc/CONTAINERS.md"), re.M | re.S)
    return found + [("CONTAINERS.md", yaml().safe_load(block)["spec"]) for block in blocks]


def containers():
    for name, pod in pods():
        for container in pod.get("initContainers", []) + pod["containers"]:
            yield name, pod, container


def installed(end):
    """Where `make install PREFIX=/usr` puts a file."""
    need("meson")
    places = json.loads(run(["meson", "introspect", "--installed", BUILD]).out).values()
    place = next(place for place in places if place.endswith(end))
    prefix = next(option["value"] for option in json.loads(run(["meson", "introspect", "--buildoptions", BUILD]).out)
                  if option["name"] == "prefix")
    return place.replace(prefix, "/usr", 1)


def check_command(words, where):
    """`mayfly COMMAND --OPTION ...` up to --: all of them are there."""
    words = words[:words.index("--")] if "--" in words else words
    help_text = mayfly(words[0], "--help", "--all").text
    for word in words[1:]:
        if word.startswith("-") and word != "-":
            option = word.split("=")[0]
            check(re.search(r"^  .*(^|[ ,])%s\b" % re.escape(option), help_text, re.M), where, "no option", word, "of", words[0])


@case
def volumes_of_pods():
    seen = 0
    for name, pod, container in containers():
        volumes = [volume["name"] for volume in pod["volumes"]]
        for mount in container["volumeMounts"]:
            seen += 1
            check(mount["name"] in volumes, name, mount)
        paths = [mount["mountPath"] for mount in container["volumeMounts"]]
        text = " ".join(container.get("command", []) + container.get("args", []) +
                        [variable.get("value", "") for variable in container.get("env", [])])
        for path in re.findall(r"(?:^|[ =])(/(?:mayfly|run/mayfly|etc/mayfly)[^ ,;]*)", text):
            check(any(path.rstrip("/") == at or path.startswith(at + "/") for at in paths), name, path, paths)
    check(seen >= 9, seen)


@case
def commands_of_pods():
    library = installed("/mayfly/libmayfly.so")
    copies = starts = 0
    for name, _, container in containers():
        command = container.get("command", [])
        for path in re.findall(r"/usr/lib/\S+\.so", " ".join(command)):
            copies += 1
            check(re.fullmatch(path.replace(".", r"\.").replace("*", "[^/]*"), library), name, path, library)
        check(not command or shutil.which(command[0]), command)
        if container.get("image", "").endswith("mayfly") and not command:
            starts += 1
            check_command(container["args"], name)
    same((copies, starts), (2, 1), "containers")
    same(document("packaging/Dockerfile").rstrip().split("\n")[-1], 'ENTRYPOINT ["mayfly"]', "the entry point")


@case
def one_folder_for_spools():
    config = document("packaging/kubernetes/agent.conf")
    folder = re.search(r"^folder = (.*)$", config, re.M).group(1)
    for name in ("daemonset.yaml", "app-patch.yaml"):
        pod = manifest(name)["spec"]["template"]["spec"]
        volume = next(volume for volume in pod["volumes"] if "hostPath" in volume)
        same(volume["hostPath"]["path"], folder, name)
        for container in pod["containers"]:
            mount = next(mount for mount in container["volumeMounts"] if mount["name"] == volume["name"])
            same(mount["mountPath"], folder, name)
    agent = manifest("daemonset.yaml")["spec"]["template"]["spec"]
    auth = re.search(r"^auth = (.*)$", config, re.M).group(1)
    mounts = {mount["name"]: mount["mountPath"] for mount in agent["containers"][0]["volumeMounts"]}
    same(os.path.dirname(auth), mounts["login"], "the folder of the login")
    secret = next(volume for volume in agent["volumes"] if volume["name"] == "login")["secret"]
    said = document("doc/CONTAINERS.md")
    check("secret generic %s --from-file=%s" % (secret["secretName"], os.path.basename(auth)) in said, secret)
    same(secret["defaultMode"], 0o400, "who may read the login")


@case
def configuration_of_the_agent():
    with Folder() as here:
        login = here / "auth"
        with open(login, "w") as file:
            file.write("user:secret\n")
        os.chmod(login, 0o400)
        with open(here / "agent.conf", "w") as file:
            file.write(document("packaging/kubernetes/agent.conf").replace("/etc/mayfly/login/auth", login))
        done = run([MAYFLY, "agent", "--check", "--config", here / "agent.conf"])
        same((done.code, done.err), (0, b""), "mayfly agent --check")
        check(b"/run/mayfly" in done.out, done.out)


@case
def rights_are_those_of_the_service():
    pod = manifest("daemonset.yaml")["spec"]["template"]["spec"]
    rights = pod["containers"][0]["securityContext"]
    service = document("packaging/mayfly-agent.service.in")
    of_service = re.search(r"^CapabilityBoundingSet=(.*)$", service, re.M).group(1).split()
    same(sorted("CAP_" + name for name in rights["capabilities"]["add"]), sorted(of_service), "capabilities")
    same(pod["hostPID"], True, "hostPID")
    for container in pod["initContainers"] + pod["containers"]:
        rights = container["securityContext"]
        same((rights["allowPrivilegeEscalation"], rights["readOnlyRootFilesystem"], rights["capabilities"]["drop"]),
             (False, True, ["ALL"]), container["name"])


@case
def variables_make_a_spool():
    """Those of app-patch.yaml, as Kubernetes expands them."""
    pod = manifest("app-patch.yaml")["spec"]["template"]["spec"]
    with Folder() as here:
        known = {"POD_NAME": "web-1", "POD_NAMESPACE": "prod", "NODE_NAME": "n"}
        variables = {}
        for variable in pod["containers"][0]["env"]:
            value = variable.get("value")
            if value is None:
                value = known[variable["name"]]
            value = re.sub(r"\$\((\w+)\)", lambda name: variables[name.group(1)], value)
            variables[variable["name"]] = value
        same(variables["LD_PRELOAD"], "/mayfly/libmayfly.so", "LD_PRELOAD")
        variables.update(LD_PRELOAD=AGENT, MAYFLY=variables["MAYFLY"].replace("/run/mayfly", here.path))
        done = run(["/bin/true"], env=environment(**variables))
        same((done.code, done.err), (0, b""), "true")
        names = [os.path.basename(path) for path in glob.glob(here / "*")]
        check(len(names) == 1 and re.fullmatch(r"prod\.web-1\.\d+\.spool", names[0]), names)
        check("dormant" in variables["MAYFLY"], variables)


@case
def commands_of_the_document():
    said = document("doc/CONTAINERS.md")
    seen = 0
    for line in re.findall(r"^ {4,}(?!- )(.*mayfly .*)$", said, re.M):
        command = re.search(r"(?:^|-- )mayfly ([a-z].*?)(?: {3,}#.*)?$", line)
        if command:
            seen += 1
            check_command(command.group(1).split(), line)
    for command in re.findall(r"`mayfly ([a-z]+)(?: [^`]*)?`", said):
        seen += 1
        mayfly(command, "--help")
    check(seen >= 8, seen)
    for path in re.findall(r"\b((?:packaging|scripts|tests)/[\w./-]*\w)", said):
        check(os.path.exists(os.path.join(SOURCE, path)), "there is no", path)
    for path in re.findall(r"\]\(([^)#]+)", said):
        check(os.path.exists(os.path.join(SOURCE, "doc", path)), "there is no", path)
    for name in ("app-patch.yaml", "agent.conf", "kustomization.yaml"):
        check(name in said and os.path.exists(os.path.join(KUBERNETES, name)), name)


@case
def kustomize_builds_it():
    need("kubectl")
    done = run(["kubectl", "kustomize", KUBERNETES])
    same((done.code, done.err), (0, b""), "kubectl kustomize")
    made = {part["kind"]: part for part in yaml().safe_load_all(done.out)}
    same(sorted(made), ["ConfigMap", "DaemonSet", "Namespace"], "what is made")
    pod = made["DaemonSet"]["spec"]["template"]["spec"]
    version = mayfly("version").text.split()[1]
    for container in pod["initContainers"] + pod["containers"]:
        same(container["image"], "registry.example/mayfly:" + version, container["name"])
    config = next(volume for volume in pod["volumes"] if "configMap" in volume)
    same(config["configMap"]["name"], made["ConfigMap"]["metadata"]["name"], "the configuration")
    same(made["ConfigMap"]["data"]["agent.conf"], document("packaging/kubernetes/agent.conf"), "agent.conf")
    same({part["metadata"].get("namespace") for part in made.values()}, {None, "mayfly"}, "namespaces")


@case
def image_without_docker():
    """Unpacked, it is a root in which mayfly runs, and has what the pods' commands need."""
    need("umoci")
    if os.getuid():
        raise Skip("chroot needs root")
    with Folder() as here:
        root, library = here / "root", installed("/mayfly/libmayfly.so")
        os.makedirs(root + "/usr/bin")
        os.makedirs(root + os.path.dirname(library))
        shutil.copy(MAYFLY, root + "/usr/bin/mayfly")
        shutil.copy(AGENT, root + library)
        script = os.path.join(SOURCE, "scripts", "make-image")
        done = run([script, root, here / "image:0.1"])
        check(done.code == 0, done)
        done = run([script, here / "nothing", here / "image:0.1"])
        check(done.code == 1 and b"make install" in done.err, done)
        same(run(["umoci", "unpack", "--rootless", "--image", here / "image:0.1", here / "bundle"]).code, 0, "unpack")
        with open(here / "bundle/config.json") as file:
            same(json.load(file)["process"]["args"], ["/usr/bin/mayfly"], "the entry point")
        inside = ["chroot", here / "bundle/rootfs"]
        same(run([*inside, "/usr/bin/mayfly", "version"]).out, mayfly("version").out, "version")
        for name, _, container in containers():
            command = container.get("command")
            if command and container.get("image", "").split(":")[0].endswith("mayfly"):
                for folder in ("mayfly", "run/mayfly"):
                    os.makedirs(here / "bundle/rootfs/" + folder, exist_ok=True)
                done = run([*inside, *command])
                same((done.code, done.err), (0, b""), "%s of %s" % (command, name))
        same(read(here / "bundle/rootfs/mayfly/libmayfly.so"), read(AGENT), "the library")
        # Which each container has.
        os.makedirs(here / "bundle/rootfs/dev")
        os.mknod(here / "bundle/rootfs/dev/null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        os.makedirs(here / "bundle/rootfs/proc")
        done = run([*inside, "/usr/bin/mayfly", "record", "-x", "-o", "/tmp/a.mayfly", "--", "/bin/cp", "--help"])
        check(done.code == 0, done)
        check(facts_of(here / "bundle/rootfs/tmp/a.mayfly")["samples"] > 0, "nothing was recorded")


def facts_of(path):
    return json.loads(mayfly("info", "--json", path).text)


if __name__ == "__main__":
    main()
