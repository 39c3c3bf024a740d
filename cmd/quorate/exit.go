package main

import (
	"errors"

	"github.com/quorate/quorate/api/client"
	"github.com/quorate/quorate/cmd/quorate/dev"
)

// codeError is an error that ends the process with its code. The codes are
// package client's: a contract with scripts.
type codeError struct {
	code int
	err  error
}

func (e codeError) Error() string { return e.err.Error() }
func (e codeError) Unwrap() error { return e.err }

// quietError ends the process with its code; everything to say was said.
type quietError int

func (e quietError) Error() string { return "see above" }

func usageError(err error) error { return codeError{client.ExitUsage, err} }

// exitCode returns the code an error ends the process with.
func exitCode(err error) int {
	var (
		quiet quietError
		coded codeError
	)
	switch {
	case errors.As(err, &quiet):
		return int(quiet)
	case errors.As(err, &coded):
		return coded.code
	case errors.Is(err, dev.ErrUsage):
		return client.ExitUsage
	case errors.Is(err, dev.ErrNoDemo):
		return client.ExitNoQuorum
	}
	return client.ExitCode(err)
}
