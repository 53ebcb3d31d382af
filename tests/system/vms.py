"""Guests behind TAPs, as virtual machines have them, on the switch of a scene."""

import tap_vm
from topology import Guest, guest_addresses, guest_mac


def add_vm(lab, scene, host, number, **options):
    """A guest behind a TAP; `options` are those of `tap_vm.start`."""
    guest = new_guest(lab, host, number, f"tap{number}")
    tap_vm.start(lab, host.ns, guest.device, guest.ns, **options)
    raise_device(host, guest.device)
    furnish(scene, guest)
    scene.fabric.port(f"vm{number}", "blue", host.name, guest.device, guest.mac, guest.addresses)
    return guest


def add_trunk(lab, scene, host, device, tags):
    """Guests behind one TAP: {tag: number}. Their ports are the caller's to declare."""
    guests = {tag: new_guest(lab, host, number, device) for tag, number in tags.items()}
    tap_vm.start_trunk(lab, host.ns, device, [(tag, guest.ns) for tag, guest in guests.items()])
    raise_device(host, device)
    for guest in guests.values():
        furnish(scene, guest)
    return guests


def new_guest(lab, host, number, device):
    return Guest(lab.namespace(f"v{number}"), host, device, number, guest_mac(number), *guest_addresses(number))


def raise_device(host, device):
    host.ns.sysctl(f"net.ipv6.conf.{device}.disable_ipv6", 1)
    host.ns.ip(f"link set {device} up")


def furnish(scene, guest):
    """What a guest's system does when it starts."""
    guest.ns.ip(f"link set eth0 address {guest.mac} mtu {scene.mtu} up",
                f"address add {guest.v4}/24 dev eth0", f"address add {guest.v6}/64 dev eth0 nodad")
