package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

func TestIdleTable(t *testing.T) {
	for _, c := range []struct {
		opened int64 // resident bytes
		heap   float64
		want   string
	}{
		{150 << 20, 6144, "At most 12 KiB per connection: met. At most 160 MiB resident at 10000 connections: 150 MiB as opened, met; 130 MiB after --return-idle-memory, met.\n"},
		{170 << 20, 9000, "At most 12 KiB per connection: missed. At most 160 MiB resident at 10000 connections: 170 MiB as opened, missed; 130 MiB after --return-idle-memory, met.\n"},
	} {
		f := footprints{base: system{rss: 30 << 20}, without: heap{8 << 20, 1 << 20}}
		f.opened.rss, f.returned.rss = c.opened, 130<<20
		f.with = heap{f.without.objects + goalIdle*c.heap, f.without.stacks + goalIdle*4096}
		var b bytes.Buffer
		if err := writeIdle(&b, goalIdle, &f); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(b.String(), c.want) {
			t.Errorf("got:\n%s\nwant the end %s", b.String(), c.want)
		}
		if text := strings.Join(strings.Fields(b.String()), " "); !strings.Contains(text, "| stacks | 1.0 MiB | 40.1 MiB | 4.00 |") {
			t.Errorf("got:\n%s\nwant 4.00 KiB of stack", b.String())
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
