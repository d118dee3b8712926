package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestOptions(t *testing.T) {
	got, err := parseOptions([]string{"-rounds", "3", "-seconds", "2", "-threads", "1,64", "-workloads", "oltp_read_write", "-cpus", "1", "-http", "-history", "-warm-up", "0"})
	if err != nil {
		t.Fatal(err)
	}
	want := &Options{
		Workloads: []string{"oltp_read_write"}, Threads: []int{1, 64}, Rounds: 3, Measured: 2 * time.Second,
		Rows: 100_000, CPUs: 1, HTTP: true, History: true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("options (-want +got):\n%s", diff)
	}
}

func TestOptionsRefused(t *testing.T) {
	for _, args := range [][]string{
		{"-rounds", "0"},
		{"-seconds", "0"},
		{"-rows", "0"},
		{"-cpus", "-1"},
		{"-warm-up", "-1"},
		{"-threads", "0"},
		{"-threads", "1,100000"},
		{"-threads", "some"},
		{"-workloads", "oltp_read_only,"},
		{"-count", "-json", "relay.json"},
		{"-count", "-bench", "relay.txt"},
		{"-count", "-history"},
		{"-count", "-against", "tare"},
		{"-history", "-against", "tare"},
		{"fast"},
	} {
		if _, err := parseOptions(args); err == nil {
			t.Errorf("accepted %q", args)
		}
	}
}
