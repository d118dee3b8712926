package copier_test

import (
	"testing"
	"time"

	"github.com/taredb/tare/internal/move/state"
	"github.com/taredb/tare/internal/mysql/session"
	"github.com/taredb/tare/move/copier"
)

// TestJobs reads a target's copies with a read-only account: no copy, a finished one, and one whose chunks
// are partly copied.
func TestJobs(t *testing.T) {
	p := newPair(t, "shop")
	reader := root(p.to)
	reader.User, reader.Password = "reader", "secret"
	sqlExec(t, p.target, "CREATE OR REPLACE USER reader IDENTIFIED BY 'secret'", "GRANT SELECT ON _tare.* TO reader")
	look := func() []state.Job {
		t.Helper()
		jobs, err := state.Jobs(t.Context(), connect(t, reader), "")
		if err != nil {
			t.Fatal(err)
		}
		return jobs
	}
	if jobs := look(); len(jobs) != 0 {
		t.Errorf("before any copy: %+v", jobs)
	}

	sqlExec(t, p.source, "CREATE TABLE shop.goods (id int PRIMARY KEY, name varchar(20), KEY (name))",
		"INSERT INTO shop.goods SELECT seq, CONCAT('n', seq) FROM seq_1_to_500")
	begun := time.Now().Add(-time.Hour) // the times are the server's
	if _, err := copier.Run(t.Context(), p.options("goods")); err != nil {
		t.Fatal(err)
	}
	jobs := look()
	if len(jobs) != 1 {
		t.Fatalf("%d copies: %+v", len(jobs), jobs)
	}
	j := jobs[0]
	identity, err := session.ServerIdentity(t.Context(), p.source)
	if err != nil {
		t.Fatal(err)
	}
	if j.Target != "shop.goods" || j.Source != identity || j.Spec != "table shop.goods" || j.Phase != "finished" ||
		j.Rows != 500 || j.Chunks == 0 || j.Copied != j.Chunks || !j.AllCut || j.Indexes != 1 || j.Version != state.StateVersion {
		t.Errorf("the copy: %+v", j)
	}
	if j.Finished == nil || j.Finished.Before(j.Started) || j.Started.Before(begun) {
		t.Errorf("times: %v to %v", j.Started, j.Finished)
	}

	sqlExec(t, p.target, "UPDATE _tare.copy_table SET phase = 'copying', finished = NULL",
		"UPDATE _tare.copy_chunk SET upto_key = '' WHERE upto_key IS NULL",
		"INSERT INTO _tare.copy_chunk (target_schema, target_table, chunk, upto_key) VALUES ('shop', 'goods', 900, 'x'), ('shop', 'goods', 901, 'y')")
	jobs = look()
	if j := jobs[0]; len(jobs) != 1 || j.Phase != "copying" || j.AllCut || j.Copied != j.Chunks-2 || j.Finished != nil || j.Rows != 500 {
		t.Errorf("halfway: %+v", jobs)
	}
}
