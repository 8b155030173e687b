// SPDX-License-Identifier: Apache-2.0

package localcluster

// EtcdURL is where the cluster's etcd serves clients. It asks nobody who they are.
func (c *Cluster) EtcdURL() string { return "http://" + c.address(Etcd) }
