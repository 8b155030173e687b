// SPDX-License-Identifier: Apache-2.0

// Package localcluster starts and stops Kubernetes clusters on this machine, for tests and for people
// without a cluster.
//
// A cluster is a directory: its certificates, its configuration, the logs of its parts and the ids of
// their processes are files in it, so that any later process can find, repair or stop it. There are
// two kinds. ControlPlane is etcd, the API server and optionally the controller manager, the scheduler
// and fake nodes; it needs no privileges and many run side by side. Node is all of Kubernetes with real
// pods, in process, mount and network namespaces of its own; it needs Linux and root.
package localcluster
