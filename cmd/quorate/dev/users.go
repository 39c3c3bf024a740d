package dev

import (
	"path/filepath"

	"github.com/quorate/quorate/api"
	"github.com/quorate/quorate/statestore"
)

// demoUser is a person of the demo, with a bearer token in a file of its own.
type demoUser struct {
	name   string
	groups []string
	token  string
	file   string
	id     string
	hash   [32]byte
}

// demoGroups lets every person of the demo do everything by the built-in roles, and
// sign: the demo's approval policy wants approvers.
var demoGroups = []string{"admin", "approver"}

// newUser makes a user and writes the token file.
func newUser(dir, name string) (demoUser, error) {
	u := demoUser{name: name, groups: demoGroups, file: filepath.Join(dir, name+".token")}
	u.token, u.id, u.hash = api.NewToken()
	return u, writeFile(u.file, u.token+"\n")
}

// put is the command that lets the user in, as a person of their own.
func (u demoUser) put() statestore.Command {
	return statestore.PutToken{ID: u.id, User: u.name, Groups: u.groups, Hash: u.hash, Root: true}
}
