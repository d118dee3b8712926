package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

func TestIdleTable(t *testing.T) {
	before := footprint{rss: 30 << 20, peak: 31 << 20, heap: 8 << 20, stacks: 1 << 20, kernel: 4096, slab: 50 << 20}
	after := before
	after.rss, after.heap, after.stacks = 130<<20, before.heap+goalIdle*6144, before.stacks+goalIdle*4096
	for _, c := range []struct {
		fresh int64
		each  float64 // further bytes of heap
		want  string
	}{
		{150 << 20, 0, "At most 12 KiB per connection: met. At most 160 MiB resident at 10000 connections: 130 MiB, met; before the collections 150 MiB, met.\n"},
		{170 << 20, 3000, "At most 12 KiB per connection: missed. At most 160 MiB resident at 10000 connections: 130 MiB, met; before the collections 170 MiB, missed.\n"},
	} {
		after := after
		after.heap += c.each * goalIdle
		var b bytes.Buffer
		if err := writeIdle(&b, goalIdle, before, after, c.fresh); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(b.String(), c.want) {
			t.Errorf("got:\n%s\nwant the end %s", b.String(), c.want)
		}
		if row := "| stacks                             | 1.0 MiB  | 40.1 MiB                    | 4.00               |\n"; !strings.Contains(b.String(), row) {
			t.Errorf("got:\n%s\nwant the row %s", b.String(), row)
		}
	}
}

func TestKernelMemory(t *testing.T) {
	n, err := parseSockstat([]byte("sockets: used 290\nTCP: inuse 5 orphan 0 tw 2 alloc 7 mem 3\nUDP: inuse 3 mem 2\n"))
	if want := int64(3 * os.Getpagesize()); n != want || err != nil {
		t.Errorf("%d bytes of buffers, %v; want %d", n, err, want)
	}
	n, err = parseSlab([]byte("MemTotal:  24602148 kB\nSlab:   84 kB\nSReclaimable: 12 kB\n"))
	if n != 84<<10 || err != nil {
		t.Errorf("%d bytes of slabs, %v", n, err)
	}
	if _, err := parseSockstat([]byte("sockets: used 290\n")); err == nil {
		t.Error("accepted a file without TCP")
	}
	if _, err := parseSlab([]byte("MemTotal: 1 kB\n")); err == nil {
		t.Error("accepted a file without slabs")
	}
}
