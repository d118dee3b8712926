package copier_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/taredb/tare/internal/move/telemetry"
	"github.com/taredb/tare/internal/move/verify"
	"github.com/taredb/tare/move/copier"
)

// TestNotCopied checks the objects that are not copied, in events and in the report.
func TestNotCopied(t *testing.T) {
	p := newPair(t, "behind")
	defer sqlExec(t, p.source, "DROP USER IF EXISTS behind_user")
	sqlExec(t, p.source, "ALTER DATABASE behind COLLATE latin1_german2_ci",
		"CREATE TABLE a (id INT PRIMARY KEY)", "CREATE TRIGGER tr BEFORE INSERT ON a FOR EACH ROW SET NEW.id = NEW.id",
		"CREATE VIEW v AS SELECT 1", "CREATE PROCEDURE pr() SELECT 1", "CREATE FUNCTION fn() RETURNS INT NO SQL RETURN 1", "CREATE EVENT ev ON SCHEDULE EVERY 1 DAY DO SELECT 1",
		"CREATE USER behind_user", "GRANT SELECT ON behind.* TO behind_user", "GRANT INSERT ON behind.a TO behind_user")
	o := p.options("a")
	var events []string
	o.Observe = func(e telemetry.Event) {
		if e.Kind == telemetry.EventNotCopied {
			events = append(events, e.Text)
		}
	}
	report, err := copier.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range report.NotCopied {
		got = append(got, report.NotCopied[i].String())
	}
	want := []string{
		"trigger in behind: tr on a", "view in behind: v", "function in behind: fn", "procedure in behind: pr", "event in behind: ev",
		"grantee in behind: 'behind_user'@'%'",
	}
	defaults := slices.IndexFunc(got, func(s string) bool {
		return strings.HasPrefix(s, "schema default in behind: collation latin1_german2_ci, in the target ")
	})
	if defaults != len(want) || len(got) != len(want)+1 {
		t.Fatalf("%q", got)
	}
	if diff := cmp.Diff(want, got[:defaults]); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(got, events); diff != "" {
		t.Errorf("events: %s", diff)
	}
}

// TestUnverified distinguishes verifications that compared every chunk from others.
func TestUnverified(t *testing.T) {
	for _, tt := range []struct {
		v       verify.Report
		compare int
		want    bool
	}{
		{verify.Report{Of: 3, Chunks: 3}, 3, false},
		{verify.Report{Of: 3, Chunks: 1, Before: 2}, 3, false},
		{verify.Report{Of: 3, Chunks: 2}, 2, true},
		{verify.Report{Of: 3, Chunks: 3, Undecided: 1}, 2, true},
		{verify.Report{Of: 3}, 0, true},
	} {
		r := copier.Report{Tables: []copier.TableReport{{}, {Verify: &verify.Report{Of: 2, Chunks: 2}}, {Verify: &tt.v}}}
		if compared, of, incomplete := r.Unverified(); incomplete != tt.want || compared != tt.compare+2 || of != 5 {
			t.Errorf("%+v: %d of %d, %v", tt.v, compared, of, incomplete)
		}
	}
}
