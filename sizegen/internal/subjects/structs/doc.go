// Package structs contains protobuf's dynamic messages: their values are all behind an interface that only their
// package implements, and each message points to the descriptor that all messages of its type share.
//
// An entry is a message, with the directives that sizegen suggests for it. Only its test uses the package.
package structs
