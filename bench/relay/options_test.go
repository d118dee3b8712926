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
		Rows: 100_000, CPUs: 1, HTTP: true, History: true, Ways: []string{byBare, byLog, byHistory, byBoth},
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
		{"-ways", "direct,tare", "-history"},
		{"-ways", "direct,tare", "-against", "tare"},
		{"-ways", "direct,proxysql"},
		{"-ways", "tare,tare"},
		{"-ways", "direct,forwarder", "-tls"},
		{"-ways", "direct,sharing", "-mysql", "-tls"},
		{"-ways", "direct,sharing"},
		{"-ways", "direct,threads", "-tls"},
		{"-ways", "direct,threads", "-mysql"},
		{"-slow", "-json", "relay.json"},
		{"-slow", "-count"},
		{"-slow", "-rows", "50"},
		{"-server-memory", "-count"},
		{"-server-memory", "-idle", "10"},
		{"-collect", "-1s"},
		{"-collect", "1s", "-count"},
		{"-idle", "-1"},
		{"-idle", "10", "-count"},
		{"-idle", "10", "-json", "relay.json"},
		{"-idle", "10", "-ways", "direct"},
		{"-idle", "10", "-ways", "tare,both"},
		{"-idle", "10", "-history"},
		{"fast"},
	} {
		if _, err := parseOptions(args); err == nil {
			t.Errorf("accepted %q", args)
		}
	}
}

func TestWays(t *testing.T) {
	for _, c := range []struct {
		args []string
		want []string
		base string
		http bool
	}{
		{nil, []string{byDirect, byHAProxy, byForwarder, byTare}, byHAProxy, false},
		{[]string{"-tls"}, []string{byDirect, byHAProxy, byTare}, byHAProxy, false},
		{[]string{"-against", "tare"}, []string{byAgainst, byTare}, byAgainst, false},
		{[]string{"-ways", "both,bare,direct,haproxy", "-collect", "1s"}, []string{byBoth, byBare, byDirect, byHAProxy}, byHAProxy, true},
		{[]string{"-ways", "both,bare"}, []string{byBoth, byBare}, byBare, false},
		{[]string{"-ways", "both,log"}, []string{byBoth, byLog}, byBoth, false},
	} {
		o, err := parseOptions(c.args)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, o.Ways); diff != "" || o.base() != c.base || o.HTTP != c.http {
			t.Errorf("%v: base %s, pages %t; ways (-want +got):\n%s", c.args, o.base(), o.HTTP, diff)
		}
	}
}
