"""What stands in deploy/ is held to the code: commands, options, keys, ports and paths."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from headgate.agent import AgentConfiguration, parse_configuration
from headgate.cli.app import app
from headgate.observer import ObserverConfig, parse_config
from headgate.settings import ConfigurationError, is_loopback, parse_address

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
SERVICES = ("observer", "agent")
EXAMPLES = {"HBASE_THRIFT1": "hbase:9090", "HBASE_THRIFT2": "hbase:9091", "KAFKA": "kafka:9092"}
"""Values for what the compose file asks its user for."""


def parsed(
    service: str, text: str, environment: Mapping[str, str]
) -> ObserverConfig | AgentConfiguration:
    parse = parse_config if service == "observer" else parse_configuration
    return parse(text, f"{service}.toml", environment)


def ports(configuration: ObserverConfig | AgentConfiguration) -> set[int]:
    """Return the ports that it listens on."""
    if isinstance(configuration, AgentConfiguration):
        return {parse_address(configuration.api)[1]}
    listeners = [each for each in (configuration.thrift1, configuration.thrift2) if each]
    addresses = [configuration.admin, *(each.listen for each in listeners)]
    return {parse_address(address)[1] for address in addresses}


def state(configuration: ObserverConfig | AgentConfiguration) -> Path:
    """Return where it keeps what must survive it."""
    if isinstance(configuration, AgentConfiguration):
        return Path(configuration.workers.directory)
    return Path(configuration.journal.directory)


def assert_is_a_command(words: list[str], service: str) -> None:
    """Check a command line, as far as a program can tell without running it."""
    program, command, *arguments = words
    assert program == "/opt/headgate/bin/headgate"
    assert command == service
    options = arguments[::2]
    shown = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"}).output
    assert options
    assert all(option in shown for option in options)
    assert dict(zip(options, arguments[1::2], strict=True)) == {
        "--config": f"/etc/headgate/{service}.toml"
    }


def dockerfile(service: str) -> list[tuple[str, str]]:
    text = (DEPLOY / "docker" / f"{service}.Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines]


def compose() -> Any:
    return yaml.safe_load((DEPLOY / "docker" / "compose.yaml").read_text())


def composed(service: str) -> tuple[Any, ObserverConfig | AgentConfiguration]:
    """Return a service of the compose file, and its configuration there."""
    found = compose()["services"][service]
    environment = {
        name: re.sub(r"\$\{(\w+):\?[^}]*\}", lambda match: EXAMPLES[match[1]], value)
        for name, value in found["environment"].items()
    }
    text = (DEPLOY / "docker" / f"{service}.toml").read_text()
    return found, parsed(service, text, environment)


def manifests(service: str) -> dict[str, list[Any]]:
    text = (DEPLOY / "kubernetes" / f"{service}.yaml").read_text()
    found: dict[str, list[Any]] = {}
    for each in yaml.safe_load_all(text):
        found.setdefault(each["kind"], []).append(each)
    return found


def pod(service: str) -> tuple[Any, Any, ObserverConfig | AgentConfiguration]:
    """Return the controller, its container and the configuration in it."""
    there = manifests(service)
    (controller,) = there.get("StatefulSet", []) + there.get("Deployment", [])
    (container,) = controller["spec"]["template"]["spec"]["containers"]
    (map_,) = there["ConfigMap"]
    fields = {"metadata.name": f"headgate-{service}-0", "status.podIP": "10.0.0.1"}
    environment: dict[str, str] = {}
    for each in container["env"]:
        value = each.get("value")
        if value is None:
            value = fields[each["valueFrom"]["fieldRef"]["fieldPath"]]
        environment[each["name"]] = re.sub(
            r"\$\((\w+)\)", lambda match: environment[match[1]], value
        )
    return controller, container, parsed(service, map_["data"][f"{service}.toml"], environment)


@pytest.mark.parametrize("service", SERVICES)
def test_an_image_is_made_of_what_is_there_and_runs_the_command(service: str) -> None:
    steps = dockerfile(service)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    for name, rest in steps:
        if name == "FROM":
            assert re.fullmatch(r"python:3\.\d+-slim-\w+( AS \w+)?", rest)
        elif name == "COPY" and not rest.startswith("--from"):
            assert all((ROOT / source).exists() for source in rest.split()[:-1])
        elif name == "RUN":
            for wanted in re.findall(r"\[([\w,]+)\]", rest):
                assert set(wanted.split(",")) <= set(extras)
    last = dict(steps)
    assert_is_a_command(json.loads(last["ENTRYPOINT"]), service)
    _, configuration = composed(service)
    assert {int(port) for port in last["EXPOSE"].split()} == ports(configuration)
    assert state(configuration).is_relative_to(last["VOLUME"])


@pytest.mark.parametrize("service", SERVICES)
def test_an_image_is_built_with_all_that_belongs_into_the_wheel(service: str) -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    wanted = [*wheel["targets"]["wheel"]["packages"], *wheel["targets"]["wheel"]["force-include"]]
    copied = [
        Path(source)
        for name, rest in dockerfile(service)
        if name == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
    ]
    missing = [
        each for each in wanted if not any(Path(each).is_relative_to(source) for source in copied)
    ]
    assert missing == []


def test_the_observers_image_has_the_compiled_wheel() -> None:
    runs = [rest for name, rest in dockerfile("observer") if name == "RUN"]
    assert any("HATCH_BUILD_HOOK_ENABLE_CUSTOM=true" in each for each in runs)


@pytest.mark.parametrize("service", SERVICES)
def test_the_compose_file_fits_the_image_and_the_configuration(service: str) -> None:
    found, configuration = composed(service)
    base = DEPLOY / "docker"
    assert (base / found["build"]["context"] / found["build"]["dockerfile"]).resolve().exists()
    assert {int(each.rsplit(":", 1)[1]) for each in found["ports"]} == ports(configuration)
    file, volume = found["volumes"]
    assert file == f"./{service}.toml:/etc/headgate/{service}.toml:ro"
    name, path = volume.split(":")
    assert name in compose()["volumes"]
    assert state(configuration).is_relative_to(path)
    (url,) = re.findall(r"http://[^']+", found["healthcheck"]["test"][-1])
    port, path = re.fullmatch(r"http://127\.0\.0\.1:(\d+)(/\w+)", url).groups()  # type: ignore[union-attr]
    assert int(port) in ports(configuration)
    assert path == "/healthz"
    assert int(found["stop_grace_period"].removesuffix("s")) > configuration.shutdown_seconds


def test_the_agent_of_the_compose_file_reads_through_its_observer() -> None:
    _, agent = composed("agent")
    observer, configuration = composed("observer")
    assert isinstance(agent, AgentConfiguration)
    assert isinstance(configuration, ObserverConfig)
    host, port = parse_address(agent.hbase.thrift2)
    assert compose()["services"][host] == observer
    assert configuration.thrift2 is not None
    assert port == parse_address(configuration.thrift2.listen)[1]
    assert parse_address(agent.advertise) == ("agent", parse_address(agent.api)[1])


@pytest.mark.parametrize("service", SERVICES)
def test_pods_have_the_ports_volumes_and_time_that_their_configuration_needs(service: str) -> None:
    controller, container, configuration = pod(service)
    template = controller["spec"]["template"]
    assert controller["spec"]["selector"]["matchLabels"] == template["metadata"]["labels"]
    assert container["image"] == f"headgate-{service}"
    named = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert set(named.values()) == ports(configuration)
    assert container["readinessProbe"]["httpGet"]["path"] in {"/healthz", "/readyz"}
    has_tls = isinstance(configuration, AgentConfiguration) and configuration.tls is not None
    for kind in ("readinessProbe", "livenessProbe"):
        (probe,) = [each for each in container[kind].values() if isinstance(each, dict)]
        assert probe["port"] in named
        assert probe.get("scheme", "HTTP") == ("HTTPS" if has_tls else "HTTP")
    for each in manifests(service)["Service"]:
        assert each["spec"]["selector"] == template["metadata"]["labels"]
        for port in each["spec"]["ports"]:
            assert named[port["targetPort"]] == port["port"]
    spec = template["spec"]
    assert spec["terminationGracePeriodSeconds"] > configuration.shutdown_seconds
    assert spec["enableServiceLinks"] is False
    claims = controller["spec"].get("volumeClaimTemplates", [])
    volumes = {each["name"] for each in spec["volumes"]}
    volumes |= {each["metadata"]["name"] for each in claims}
    mounts = {each["mountPath"]: each["name"] for each in container["volumeMounts"]}
    assert set(mounts.values()) == volumes
    assert "/etc/headgate" in mounts
    assert any(state(configuration).is_relative_to(path) for path in mounts)


def test_the_agent_of_the_compose_file_is_reached_from_its_host_alone_and_with_a_token() -> None:
    found, agent = composed("agent")
    assert isinstance(agent, AgentConfiguration)
    assert all(is_loopback(each.split(":")[0]) for each in found["ports"])
    (name,) = found["secrets"]
    assert agent.access.token_file == f"/run/secrets/{name}"
    assert compose()["secrets"][name] == {"environment": "HEADGATE_TOKEN"}
    assert found["environment"]["HEADGATE_TOKEN_FILE"] == agent.access.token_file


def test_agents_of_a_cluster_have_tls_and_a_token_of_secrets() -> None:
    controller, container, agent = pod("agent")
    assert isinstance(agent, AgentConfiguration)
    assert agent.tls is not None
    assert not agent.access.proxied
    mounts = {each["mountPath"]: each["name"] for each in container["volumeMounts"]}
    volumes = {each["name"]: each for each in controller["spec"]["template"]["spec"]["volumes"]}
    secret = {
        path: volumes[name]["secret"]["secretName"]
        for path, name in mounts.items()
        if "secret" in volumes[name]
    }
    text = (DEPLOY / "kubernetes" / "agent.yaml").read_text().replace("\\\n#", "")
    files = (agent.access.token_file, agent.tls.certificate, agent.tls.key, agent.peers.ca)
    for folder, key in (file.rsplit("/", 1) for file in files):
        (made,) = re.findall(rf"# kubectl create secret generic {secret[folder]} (.*)", text)
        assert f"={key}" in made or f"={key}=" in made or f"literal={key}=" in made
    variables = {each["name"]: each.get("value") for each in container["env"]}
    assert variables["HEADGATE_TOKEN_FILE"] == agent.access.token_file
    assert variables["HEADGATE_CA"] == agent.peers.ca
    host, port = parse_address(variables["HEADGATE_AGENT"].removeprefix("https://"))
    assert f"DNS:{host}" in text
    assert port == parse_address(agent.api)[1]
    # Pods are asked by their addresses, for which nobody has certificates.
    assert f"DNS:{agent.peers.server_name}" in text
    (service,) = manifests("agent")["Service"]
    assert service["metadata"]["name"] in agent.access.hosts


def test_the_unit_of_the_agent_has_where_to_make_its_token() -> None:
    text = (DEPLOY / "systemd" / "headgate-agent.service").read_text()
    keys = dict(re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE))
    folder = f"/var/lib/{keys['StateDirectory']}"
    assert keys["Environment"] == f"XDG_STATE_HOME={folder}"
    assert f"{folder}/headgate/agent.token" in text


@pytest.mark.parametrize("directory", ["docker", "kubernetes"])
def test_what_is_shipped_does_not_start_without_its_guard(directory: str) -> None:
    """As it was shipped once: open to everybody in the cluster."""
    agent = composed("agent")[1] if directory == "docker" else pod("agent")[2]
    assert isinstance(agent, AgentConfiguration)
    host, _ = parse_address(agent.api)
    assert not is_loopback(host)
    open_to_all = 'api = "0.0.0.0:7680"\n[hbase]\nthrift2 = "h:1"\n[kafka]\nbootstrap = "k:1"\n'
    with pytest.raises(ConfigurationError, match=r"agent.toml:1.*'api'.*\[tls\].*proxied"):
        parse_configuration(open_to_all, "agent.toml", {})


def test_observers_of_a_cluster_have_names_of_their_own_and_room_for_the_journal() -> None:
    controller, _, configuration = pod("observer")
    assert isinstance(configuration, ObserverConfig)
    assert configuration.name == "headgate-observer-0"
    names = [each["metadata"]["name"] for each in manifests("observer")["Service"]]
    assert controller["spec"]["serviceName"] in names
    (claim,) = controller["spec"]["volumeClaimTemplates"]
    room = claim["spec"]["resources"]["requests"]["storage"]
    assert int(room.removesuffix("Gi")) << 30 > configuration.journal.limit_bytes


def test_agents_of_a_cluster_read_through_its_observers_and_know_each_other() -> None:
    _, _, agent = pod("agent")
    assert isinstance(agent, AgentConfiguration)
    host, port = parse_address(agent.hbase.thrift2)
    reached = {
        (each["metadata"]["name"], port["port"]): port["name"]
        for each in manifests("observer")["Service"]
        for port in each["spec"]["ports"]
    }
    assert reached[host, port] == "thrift2"
    assert agent.name == "headgate-agent-0"
    assert parse_address(agent.advertise) == ("10.0.0.1", parse_address(agent.api)[1])


@pytest.mark.parametrize("service", SERVICES)
def test_a_unit_runs_the_command_and_gives_it_time_to_end(service: str) -> None:
    text = (DEPLOY / "systemd" / f"headgate-{service}.service").read_text()
    keys = dict(re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE))
    assert_is_a_command(shlex.split(keys["ExecStart"]), service)
    _, configuration = composed(service)
    assert int(keys["TimeoutStopSec"]) > configuration.shutdown_seconds
    assert f'directory = "/var/lib/{keys["StateDirectory"]}' in text
