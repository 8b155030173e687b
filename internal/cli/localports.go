// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// portPair is a port of this machine, or 0 for any, and the port of a pod that it leads to.
type portPair struct{ local, remote uint16 }

// openPort is a pair whose port of this machine is listened on.
type openPort struct {
	portPair
	listeners []net.Listener
}

// parsePorts checks [LOCAL:]REMOTE and completes it.
func parsePorts(given []string) ([]portPair, error) {
	var ports []portPair
	for _, text := range given {
		local, remote, two := strings.Cut(text, ":")
		if !two {
			remote = local
		}
		if local == "" {
			local = "0"
		}
		from, fromErr := strconv.ParseUint(local, 10, 16)
		to, toErr := strconv.ParseUint(remote, 10, 16)
		if fromErr != nil || toErr != nil || to == 0 {
			return nil, &problem{cause: fmt.Errorf("%q is not a port", text), next: []string{"write LOCAL:REMOTE, such as 8080:80, or one number of 1 to 65535"}}
		}
		ports = append(ports, portPair{local: uint16(from), remote: uint16(to)})
	}
	return ports, nil
}

// freePorts is how often a port is chosen that is free at one address of this machine and not at the other.
const freePorts = 10

// listenAll listens on ports of an address of this machine. localhost is those of both IP versions that there
// are: a port that another program has at one of them is taken.
func listenAll(address string, pairs []portPair) ([]*openPort, error) {
	hosts := []string{address}
	if address == "localhost" {
		hosts = []string{"127.0.0.1"}
		if probe, err := listenOn("::1", 0); err == nil {
			_ = probe.Close()
			hosts = append(hosts, "::1")
		}
	}
	var all []*openPort
	for _, pair := range pairs {
		port, err := listen(hosts, pair)
		for attempt := 1; err != nil && pair.local == 0 && attempt < freePorts; attempt++ {
			port, err = listen(hosts, pair)
		}
		if err != nil {
			closeAll(all)
			return nil, &problem{cause: fmt.Errorf("port %d of this machine cannot be listened on: %w", pair.local, err),
				next: []string{"choose another port of this machine: LOCAL:REMOTE, or :REMOTE for any that is free"}}
		}
		all = append(all, port)
	}
	return all, nil
}

func listen(hosts []string, pair portPair) (*openPort, error) {
	port := &openPort{portPair: pair}
	for _, host := range hosts {
		listener, err := listenOn(host, port.local)
		if err != nil {
			closeAll([]*openPort{port})
			return nil, err
		}
		port.listeners = append(port.listeners, listener)
		if address, ok := listener.Addr().(*net.TCPAddr); ok {
			port.local = uint16(address.Port)
		}
	}
	return port, nil
}

// listenOn listens on an address of one IP version: "::" is not those of the other, too.
func listenOn(host string, port uint16) (net.Listener, error) {
	network := "tcp6"
	if net.ParseIP(host).To4() != nil {
		network = "tcp4"
	}
	return net.Listen(network, net.JoinHostPort(host, strconv.Itoa(int(port))))
}

func closeAll(ports []*openPort) {
	for _, port := range ports {
		for _, listener := range port.listeners {
			_ = listener.Close()
		}
	}
}
