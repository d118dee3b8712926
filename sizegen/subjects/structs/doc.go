// Package structs contains protobuf's dynamic messages: their values are all behind an interface that only their
// package implements, and each message points to what the process has once for all of its type.
//
// An entry is a message, with the directives that sizegen suggests for it. Only its test uses the package.
package structs
