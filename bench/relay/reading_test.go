package main

import (
	"os"
	"testing"
	"time"
)

func TestTasks(t *testing.T) {
	status := []byte("Name:\tx\nThreads:\t1\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t3\n")
	var sum tasks
	for range 2 {
		if err := sum.add(status, []byte("500 40 9\n")); err != nil {
			t.Fatal(err)
		}
	}
	if want := (tasks{voluntary: 14, involuntary: 6, queued: 80}); sum != want {
		t.Errorf("got %+v, want %+v", sum, want)
	}
	for _, c := range []struct{ status, schedstat string }{
		{"Name:\tx\n", "500 40 9\n"},
		{string(status), "500 40\n"},
		{string(status), "500 soon 9\n"},
	} {
		if err := new(tasks).add([]byte(c.status), []byte(c.schedstat)); err == nil {
			t.Errorf("accepted status %q with schedstat %q", c.status, c.schedstat)
		}
	}
}

func TestBusy(t *testing.T) {
	got, err := parseBusy([]byte("cpu  100 20 30 4000 500 6 7 8 90 9\ncpu0 1 2 3 4 5 6 7 8 9 10\n"))
	if want := 1710 * time.Millisecond; err != nil || got != want {
		t.Errorf("got %v and error %v, want %v", got, err, want)
	}
	if _, err := parseBusy([]byte("intr 5\n")); err == nil {
		t.Error("accepted an account without CPUs")
	}
}

// TestMeter measures this process burning CPU in place of the proxy.
func TestMeter(t *testing.T) {
	m := meter{server: os.Getpid(), proxy: os.Getpid(), all: []int{os.Getpid()}}
	if err := m.read(&m.before); err != nil {
		t.Fatal(err)
	}
	for {
		if err := m.read(&m.after); err != nil {
			t.Fatal(err)
		}
		if m.after.proxy.usage.CPU-m.before.proxy.usage.CPU > 50*time.Millisecond {
			break
		}
	}
	run := m.run()
	if run.CPU <= int64(50*time.Millisecond) || run.User+run.Sys != run.CPU {
		t.Errorf("CPU %d ns, of which user %d and system %d: want more than 50 ms, and their sum", run.CPU, run.User, run.Sys)
	}
	if run.ServerCPU <= int64(50*time.Millisecond) {
		t.Errorf("server CPU %d ns, want more than 50 ms", run.ServerCPU)
	}
	if run.PeakRSS < run.RSS || run.RSS < 1<<20 {
		t.Errorf("resident %d bytes, at most %d: want 1 MiB at least, and no more than the peak", run.RSS, run.PeakRSS)
	}
	if run.Foreign < 0 || run.Foreign > 1.5 {
		t.Errorf("others used %v of the CPUs", run.Foreign)
	}
}
