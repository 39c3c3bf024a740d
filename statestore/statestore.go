// Package statestore is the replicated state machine: the spec, the state the
// nodes agree on, the commands that change it, and how both are encoded.
//
// Equal index means equal state and equal hash on every node (G15). A refused
// command changes nothing but the log position, log time and what is on record of
// it. Apply is total: it never blocks and reads no clock, randomness, network or
// disk. It holds small frozen arithmetic and precondition checks; judgement that
// will evolve is in package policy, which commits its conclusions together with
// their basis.
package statestore

// SupportedLevel is the highest feature level whose commands this build applies.
const SupportedLevel uint32 = 1
