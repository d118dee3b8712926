//go:build !linux

package main

// overwrite leaves the process list as it is: only Linux shows the memory that os.Args refers to.
func overwrite(string, int, int) {}
