// Package goast holds the syntax tree of a Go file: a sealed interface of the standard library with
// dozens of implementations, and fields of which only a directive says what they hold.
//
// An entry is a file's tree, as a cache of a language server would keep it. Its directives are the
// recipe in the README of sizegen. Nothing but its test uses the package.
package goast
