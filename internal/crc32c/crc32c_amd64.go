package crc32c

import "golang.org/x/sys/cpu"

// divides reports whether the CPU has the instructions that divided executes.
var divides = cpu.X86.HasSSE42 && cpu.X86.HasPCLMULQDQ //nolint:gochecknoglobals // what the CPU has

// divided returns the inverted checksum of 24*rounds+rest bytes at p. rounds must be at least 1; near and far must be
// shifts[rounds] and shifts[2*rounds].
//
//go:noescape
func divided(p *byte, rounds, rest uintptr, near, far uint64) uint32
