// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"net/netip"
	"testing"
)

func TestANodeGetsABlockThatNothingUses(t *testing.T) {
	const dir = "/some/cluster"
	preferred, err := freeBlock(nil, dir)
	if err != nil {
		t.Fatal(err)
	}
	within := preferred.Addr().Next().String()
	cases := map[string]struct {
		routes        []string
		keepPreferred bool
	}{
		"nothing but a default route":     {[]string{"default"}, true},
		"a route to another network":      {[]string{"192.0.2.0/24"}, true},
		"a route within the block":        {[]string{within + "/32"}, false},
		"an address within the block":     {[]string{within}, false},
		"a route that includes the block": {[]string{"10.0.0.0/8", "172.16.0.0/12"}, false},
	}
	for name, is := range cases {
		t.Run(name, func(t *testing.T) {
			used, err := parseRoutes(is.routes)
			if err != nil {
				t.Fatal(err)
			}
			block, err := freeBlock(used, dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, other := range used {
				if block.Overlaps(other) {
					t.Errorf("%s overlaps %s", block, other)
				}
			}
			if kept := block == preferred; kept != is.keepPreferred {
				t.Errorf("the block is %s, where %s is free: %v", block, preferred, is.keepPreferred)
			}
		})
	}
	if _, err := freeBlock([]netip.Prefix{netip.MustParsePrefix("0.0.0.0/1"), netip.MustParsePrefix("128.0.0.0/1")}, dir); err == nil {
		t.Error("a block was found where none is free")
	}
}

func TestTheNetworksOfANodeDoNotOverlap(t *testing.T) {
	for _, block := range candidates() {
		n := newNetwork(block, "/d")
		services, pods := netip.MustParsePrefix(n.Services), netip.MustParsePrefix(n.Pods)
		cable := netip.PrefixFrom(netip.MustParseAddr(n.HostIP), 24).Masked()
		if services.Overlaps(pods) || cable.Overlaps(services) || cable.Overlaps(pods) {
			t.Errorf("networks overlap: %+v", n)
		}
		for _, prefix := range []netip.Prefix{services, pods, cable} {
			if !block.Contains(prefix.Addr()) || prefix != prefix.Masked() {
				t.Errorf("%s is no network of %s", prefix, block)
			}
		}
		if !cable.Contains(netip.MustParseAddr(n.NodeIP)) || !services.Contains(netip.MustParseAddr(n.ServiceIP)) {
			t.Errorf("an address is outside its network: %+v", n)
		}
		if len(n.Device) > 15 {
			t.Errorf("the kernel allows 15 bytes for the name of device %s", n.Device)
		}
	}
}
