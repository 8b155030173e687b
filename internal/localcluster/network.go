// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// network is the private network of a node. Everything lies in one block of 65536 addresses:
//
//	x.y.0.0/24    the cable between this machine (.1) and the node (.2)
//	x.y.16.0/20   Services
//	x.y.128.0/17  pods
//
// This machine has routes to Services and pods through the node, so they can be reached from here.
type network struct {
	Device    string `json:"device,omitempty"` // this machine's end of the cable
	Block     string `json:"block,omitempty"`
	HostIP    string `json:"hostIP,omitempty"`
	NodeIP    string `json:"nodeIP,omitempty"`
	Services  string `json:"services,omitempty"`
	ServiceIP string `json:"serviceIP,omitempty"` // of the Service kubernetes
	Pods      string `json:"pods,omitempty"`
}

func newNetwork(block netip.Prefix, dir string) network {
	bytes := block.Addr().As4()
	at := func(third, fourth byte) string {
		return netip.AddrFrom4([4]byte{bytes[0], bytes[1], third, fourth}).String()
	}
	return network{
		Device:    "berth" + shortHash(dir),
		Block:     block.String(),
		HostIP:    at(0, 1),
		NodeIP:    at(0, 2),
		Services:  at(16, 0) + "/20",
		ServiceIP: at(16, 1),
		Pods:      at(128, 0) + "/17",
	}
}

// shortHash tells clusters apart where a name must be short.
func shortHash(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return hex.EncodeToString(sum[:4])
}

// candidates are private blocks that few others use.
func candidates() []netip.Prefix {
	var blocks []netip.Prefix
	for second := 214; second < 254; second++ {
		blocks = append(blocks, block(10, byte(second)))
	}
	for second := 30; second > 17; second-- {
		blocks = append(blocks, block(172, byte(second)))
	}
	return append(blocks, block(198, 18), block(198, 19)) // RFC 2544: networks for tests of devices
}

func block(first, second byte) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{first, second}), 16)
}

// freeBlock returns a candidate that overlaps none of the networks in use. It looks from another one on for
// each cluster, so that those that start at the same moment, or do not run at this one, get different blocks.
func freeBlock(used []netip.Prefix, dir string) (netip.Prefix, error) {
	all := candidates()
	sum := sha256.Sum256([]byte(dir))
	first := int(sum[0]) % len(all)
	for _, candidate := range slices.Concat(all[first:], all[:first]) {
		free := true
		for _, other := range used {
			free = free && !candidate.Overlaps(other)
		}
		if free {
			return candidate, nil
		}
	}
	return netip.Prefix{}, errors.New("all private networks are in use on this machine")
}

// parseRoutes reads destinations as ip(8) prints them. The default route overlaps nothing.
func parseRoutes(destinations []string) ([]netip.Prefix, error) {
	var used []netip.Prefix
	for _, destination := range destinations {
		if destination == "default" {
			continue
		}
		prefix, err := netip.ParsePrefix(destination)
		if err != nil {
			address, err := netip.ParseAddr(destination)
			if err != nil {
				return nil, fmt.Errorf("read the route to %q: %w", destination, err)
			}
			prefix = netip.PrefixFrom(address, address.BitLen())
		}
		if prefix.Bits() > 0 {
			used = append(used, prefix)
		}
	}
	return used, nil
}
