package main

import "unsafe"

// overwrite masks a part of an argument of the process in the memory that /proc/PID/cmdline shows: on Linux
// os.Args refers to the kernel's copy, which is writable.
func overwrite(arg string, from, to int) {
	memory := unsafe.Slice(unsafe.StringData(arg), len(arg))
	for i := from; i < to; i++ {
		memory[i] = 'x'
	}
}
