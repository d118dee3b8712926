package copier_test

import (
	"testing"
	"time"

	"github.com/taredb/tare/internal/testbucket"
	"github.com/taredb/tare/internal/testseed"
	"github.com/taredb/tare/move/copier"
)

// TestDumpS3Faults dumps to an S3 server that refuses, cuts, damages and loses, and loads from it: each attempt fails or is right, and
// later attempts resume those before.
func TestDumpS3Faults(t *testing.T) {
	p := newPair(t, "faulty")
	sqlExec(t, p.source, "CREATE TABLE a (id INT PRIMARY KEY, c VARCHAR(200))", "INSERT INTO a SELECT seq, REPEAT(CONCAT('row ', seq), 10) FROM seq_1_to_3000", "ANALYZE TABLE a")
	server := testbucket.NewServer()
	proxy := testbucket.StartProxy(t, testseed.New(t), server, server.Get)
	to := s3Destination(t, proxy.Addr)
	kinds := []testbucket.Fault{
		testbucket.Refuse, testbucket.Lose, testbucket.Reset, testbucket.Cut, testbucket.Short, testbucket.Error, testbucket.SlowDown, testbucket.TooMany, testbucket.Denied, testbucket.Missing, testbucket.Flip,
	}
	o := p.options("a")
	o.ChunkBytes, o.Workers, o.Patience = 10_000, 2, 2*time.Second
	load := o
	to.Patience = o.Patience
	load.From = copier.FromDump(to)
	attempts := func(what string, do func() error) {
		proxy.Break(testbucket.Rules{Kinds: kinds, Rate: 0.25})
		defer proxy.Heal()
		var err error
		for try := range 40 {
			if try == 30 {
				proxy.Heal()
			}
			if err = do(); err == nil {
				t.Logf("%s in %d attempts", what, try+1)
				return
			}
		}
		t.Fatalf("%s: %v", what, err)
	}
	finished := false
	attempts("dumped", func() error {
		_, err := copier.Dump(t.Context(), o, to)
		if text, ok := server.Get("nightly/manifest.json"); err != nil && ok { // its response was lost
			t.Logf("%v, with a manifest of %d bytes", err, len(text))
			finished = true
		}
		if finished {
			return nil
		}
		return err
	})
	attempts("loaded", func() error {
		_, err := copier.Run(t.Context(), load)
		return err
	})
	p.same(t, "a")
	var faults int
	for _, n := range proxy.Done() {
		faults += n
	}
	if faults < 3 { // of about 30: less than 10 happen once in 100,000 runs
		t.Errorf("only %d faults: %v", faults, proxy.Done())
	}
}
