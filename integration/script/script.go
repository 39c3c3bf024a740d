// Package script holds the command line to what the documentation says of it.
//
// Each script in testdata runs the built command: those in cli alone, those in
// demo one after the other against one running demo. They need only Go.
package script
