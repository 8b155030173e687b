// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package localcluster

import (
	"context"
	"errors"
)

// NodeProblem says in a sentence why this machine cannot run a node, or is empty if it can.
func NodeProblem() string { return "real pods need Linux" }

var errNoNode = errors.New(NodeProblem())

func prepareMachine(context.Context, string, *Progress) error { return errNoNode }

func chooseNetwork(string) (network, error) { return network{}, errNoNode }

func (c *Cluster) startNode(context.Context) error { return errNoNode }

// inNode starts things where the cluster's parts live, which is here.
func (c *Cluster) inNode(start func() error) error { return start() }

func (c *Cluster) cleanMachine(context.Context) error { return nil }
