// Package cluster runs whole installations as an operator would: processes of the
// built binary in network namespaces of their own, made by init, join and apply.
//
// Every scenario breaks something (a process, a link, a disk, a spec), floods the nodes
// or has them reload what they answer from, while a client asks each node at least 200
// times a second. A wrong or an empty answer fails it, and so does silence of a node
// that nobody stopped on purpose. Each check is first seen to fail on a planted fault.
// It needs root, iproute2 and iptables: `make integration`.
package cluster
