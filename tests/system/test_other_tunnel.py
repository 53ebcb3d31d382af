"""A kernel tunnel that was there before, on the same port and between the same hosts."""

import pytest

import traffic
from overlane import GENEVE, PORTS, VXLAN, apply, verdicts
from topology import Scene, apply_host

pytestmark = pytest.mark.needs_overlane
KINDS = pytest.mark.parametrize("encapsulation", [
    VXLAN, pytest.param(GENEVE, marks=pytest.mark.needs_kernel("geneve"))])
OTHER_VNI = 77


def tunnel_address(host):
    return f"198.18.77.{host.number}"


def own_tunnel(scene):
    """A tunnel of the hosts themselves: device `own`, with an address at each end."""
    for host, peer in (scene.hosts, scene.hosts[::-1]):
        port = PORTS[scene.encapsulation]
        local = f" local {host.address}" if scene.encapsulation == VXLAN else ""
        zero = "udp6zerocsumtx udp6zerocsumrx" if scene.family == 6 else ""
        host.ns.ip(f"link add own type {scene.encapsulation} id {OTHER_VNI}{local}"
                   f" remote {peer.address} dstport {port} {zero}",
                   "link set own mtu 1400 up", f"address add {tunnel_address(host)}/24 dev own")


def works(scene):
    one, two = scene.hosts
    traffic.ping(one.ns, tunnel_address(two))
    traffic.ping(two.ns, tunnel_address(one))
    traffic.tcp_equal(one.ns, tunnel_address(one), two.ns, tunnel_address(two),
                      size=traffic.MEBIBYTE, port=5401)


@KINDS
def test_it_goes_on_beside_the_fabric(lab, encapsulation, family):
    scene = Scene(lab, encapsulation, family)
    own_tunnel(scene)
    works(scene)
    path = scene.fabric.write(lab.directory / "fabric.yaml")
    for host in scene.hosts:
        dry = apply(path, host.name, host.netns, "--dry-run").stderr
        said = apply_host(lab, path, host).stderr
        for text in (dry, said):
            assert f"device own: it has UDP port {PORTS[encapsulation]} too" in text, text
    works(scene)
    near, far = scene.guests
    traffic.ping(near.ns, far.v4)
    traffic.tcp_equal(near.ns, near.v4, far.ns, far.v4, size=traffic.MEBIBYTE)
    works(scene)
    counts = verdicts(scene.hosts[0].name)
    assert not [key for key in counts if key[1] in ("unknown_vni", "unknown_vtep")], counts


@KINDS
def test_when_it_is_gone_strangers_are_refused_again(lab, encapsulation):
    scene = Scene(lab, encapsulation, 4)
    own_tunnel(scene)
    scene.apply()
    one, two = scene.hosts
    one.ns.ip("link delete own")
    path = lab.directory / "fabric.yaml"
    said = apply(path, one.name, one.netns)
    assert "~ another device on the tunnel port true → false" in said.stdout
    assert "+ device ovl-gro (receive coalescing)" in said.stdout
    assert traffic.pings(two.ns, tunnel_address(one), timeout=0.5) == 0
    assert verdicts(one.name)["from_underlay", "unknown_vni"] >= 1
