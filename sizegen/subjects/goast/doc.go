// Package goast holds the syntax tree of a Go file: a sealed interface of the standard library with
// dozens of implementations, and fields whose dynamic types only a directive can state.
//
// An entry is a file's tree, as a cache of a language server would keep it. Its directives are the
// recipe in the README of sizegen. Only its test uses the package.
package goast
