// Package crc32c computes CRC32 checksums with the Castagnoli polynomial, as hash/crc32 does, in half the time for data of
// about a kilobyte, such as TSDB chunks.
//
// The CRC32 instruction takes three cycles, and a CPU starts one per cycle if they do not depend on each other. hash/crc32
// divides multiples of 504 bytes into three parts to use this. On amd64, Checksum divides data of any length from 96 bytes
// to 16 KiB: it computes the checksums of three parts at the same time, and combines them by a multiplication of
// polynomials. Other data, and other CPUs, are left to hash/crc32.
package crc32c
