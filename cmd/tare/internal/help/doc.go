// Package help prints the help of commands: flags in groups, with lines as wide as the terminal. The group of a flag is the one that its
// option declares; it reaches the flag as an annotation. Manual pages are not its concern: cobra generates them.
//
// # File map
//
//	help.go    help and usage of a command, wrapping
package help
