package stmtstats

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taredb/tare/internal/teststmt"
	"github.com/taredb/tare/querylog"
)

// TestEviction checks which Keys are evicted, and when: those with the longest idle time, of at least
// MinIdle, at a Collect after a digest found no room, at the rate of Turnover.
func TestEviction(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	table := mustOpen(t, Options{
		MaxDigests: 32, MinIdle: time.Minute, Turnover: 32 * time.Minute, Now: func() time.Time { return now },
	})
	defer func() { _ = table.Close() }()
	observe := func(n int) {
		r := teststmt.Record(n, time.Millisecond)
		r.Start = now
		table.Observe(r)
	}
	collect := func() (gone []string, other, evicted uint64) {
		if err := table.Collect(func(s *Sample) error {
			switch s.Kind {
			case Removed:
				gone = append(gone, fmt.Sprint(s.Digest[3]))
			case Other:
				other = s.Counts[Calls]
			case Evicted:
				evicted = s.Counts[Calls]
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return gone, other, evicted
	}
	expect := func(what, want string) {
		t.Helper()
		gone, other, evicted := collect()
		if got := fmt.Sprintf("gone %v, other %d, evicted %d", gone, other, evicted); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	for n := range 32 {
		observe(n)
		now = now.Add(time.Second)
	}
	now = now.Add(time.Hour)
	expect("a full table into which nothing wants", "gone [], other 0, evicted 0")
	observe(100)
	expect("a sixteenth at once", "gone [0 1], other 1, evicted 2")
	observe(100)
	observe(101)
	observe(102)
	expect("nothing is left of the turnover", "gone [], other 2, evicted 2")
	now = now.Add(time.Minute)
	expect("one a minute", "gone [2], other 2, evicted 3")
	now = now.Add(time.Minute)
	for n := range 32 {
		if n > 2 {
			observe(n)
		}
	}
	observe(102)
	observe(100)
	observe(101)
	observe(103)
	expect("nobody is idle", "gone [], other 3, evicted 3")
	if s := table.Stats(); s.Digests != 32 || s.Evictions != 3 || s.Untracked != 3 {
		t.Errorf("stats: %+v", s)
	}
}

// TestMemoryIsBounded fills the default table with the largest entries, and adds up its memory.
func TestMemoryIsBounded(t *testing.T) {
	table := mustOpen(t, Options{})
	defer func() { _ = table.Close() }()
	r := teststmt.Record(0, 0)
	r.Normalized = bytes.Repeat([]byte("select ?, "), 1000)
	for n := range 30_000 {
		r.Digest[1], r.Digest[2], r.Digest[3] = byte(n>>16), byte(n>>8), byte(n)
		for o := range 6 {
			r.Total = time.Duration(100<<o) * time.Microsecond
			table.Observe(r)
		}
	}
	s := table.Stats()
	if s.Bytes > DefaultBytes {
		t.Errorf("%d bytes, want at most %d", s.Bytes, DefaultBytes)
	}
	var calls uint64
	if err := table.Each(func(s *Sample) error { calls += s.Counts[Calls]; return nil }); err != nil {
		t.Fatal(err)
	}
	if calls != 30_000*6 {
		t.Errorf("%d calls, want %d", calls, 30_000*6)
	}
	if s.Digests < 15_000 {
		t.Errorf("%d digests with texts of %d bytes and six octaves have room", s.Digests, shortText)
	}
}

// TestDefaultsHoldTheirDigests observes ordinary statements: all of them find room.
func TestDefaultsHoldTheirDigests(t *testing.T) {
	table := mustOpen(t, Options{})
	defer func() { _ = table.Close() }()
	r := teststmt.Record(0, 0)
	r.Normalized = bytes.Repeat([]byte("select ?, "), 40)
	for n := range DefaultMaxDigests {
		r.Digest[1], r.Digest[2], r.Digest[3] = byte(n>>16), byte(n>>8), byte(n)
		for o := range 7 {
			r.Total = time.Duration(100<<o) * time.Microsecond
			table.Observe(r)
		}
	}
	if s := table.Stats(); s.Digests != DefaultMaxDigests || s.Untracked != 0 || s.Evictions != 0 {
		t.Errorf("%+v, want %d digests and no call untracked", s, DefaultMaxDigests)
	}
}

func TestFileIsLocked(t *testing.T) {
	o := Options{Dir: t.TempDir(), MaxDigests: 4, Bytes: leastBytes(4)}
	table := mustOpen(t, o)
	if _, err := OpenTable(o); err == nil || !strings.Contains(err.Error(), "another process uses it") {
		t.Errorf("a second table is opened: %v", err)
	}
	if err := table.Close(); err != nil {
		t.Fatal(err)
	}
	if err := table.Close(); err == nil {
		t.Error("closed twice")
	}
	if err := mustOpen(t, o).Close(); err != nil {
		t.Fatal(err)
	}
}

// TestForeignFilesAreSetAside opens files that are not tables; they are kept unchanged under another name.
func TestForeignFilesAreSetAside(t *testing.T) {
	o := Options{Dir: t.TempDir(), MaxDigests: 4, Bytes: leastBytes(4)}
	table := mustOpen(t, o)
	table.Observe(teststmt.Record(1, time.Millisecond))
	if err := table.Close(); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(filepath.Join(o.Dir, tableName))
	if err != nil {
		t.Fatal(err)
	}
	entry := headerBytes + 2*totalsBytes + entryBytes
	damage := func(at int) []byte {
		b := bytes.Clone(good)
		b[at] ^= 0x55
		return b
	}
	for _, c := range []struct {
		name, want string
		content    []byte
	}{
		{"empty", "not a digest table", nil},
		{"text", "not a digest table", bytes.Repeat([]byte("hello "), 5000)},
		{"cut off", "bytes for 5 entries", good[:len(good)-8]},
		{"version", "of version", damage(8)},
		{"header", "checksum", damage(12 + 16)},
		{"digest", "checksum", damage(entry + 50)},
		{"page", "page", damage(entry + 128 + 8*NumCounters + 4*10)},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := o
			o.Dir = t.TempDir()
			var said bytes.Buffer
			o.Slog = slog.New(slog.NewTextHandler(&said, nil))
			if err := os.WriteFile(filepath.Join(o.Dir, tableName), c.content, 0o600); err != nil {
				t.Fatal(err)
			}
			table := mustOpen(t, o)
			defer func() { _ = table.Close() }()
			aside := table.Stats().SetAside
			if got, err := os.ReadFile(aside); err != nil || !bytes.Equal(got, c.content) {
				t.Errorf("what was set aside is %d bytes, %v", len(got), err)
			}
			if !strings.Contains(said.String(), c.want) || !strings.Contains(said.String(), aside) {
				t.Errorf("the log says %q, want %q", said.String(), c.want)
			}
			if n := table.Stats().Digests; n != 0 {
				t.Errorf("%d digests of a file that cannot be trusted", n)
			}
		})
	}
}

// TestRedaction checks that texts are not in the file, including those of an earlier run with less redaction.
func TestRedaction(t *testing.T) {
	o := Options{Dir: t.TempDir(), MaxDigests: 4, Bytes: leastBytes(4)}
	for _, c := range []struct {
		redaction        querylog.Redaction
		normalized, text bool
	}{
		{querylog.RedactNone, true, true},
		{querylog.RedactLiterals, true, false},
		{querylog.RedactAll, false, false},
		{querylog.RedactLiterals, true, false},
	} {
		o.Redaction = c.redaction
		table := mustOpen(t, o)
		r := teststmt.Record(1, time.Millisecond)
		r.Start, r.Normalized, r.Text = time.Now(), []byte("select name = ?"), []byte("select name = 'secret'")
		table.Observe(r)
		var id uint64
		if err := table.Each(func(s *Sample) error { id = max(id, s.ID); return nil }); err != nil {
			t.Fatal(err)
		}
		text, _ := table.Text(id)
		slow := table.SlowCalls(nil, id)
		if (text == "select name = ?") != c.normalized || len(slow) == 0 || slow[0].Duration != r.Total {
			t.Errorf("%v: text %q, slow calls %+v", c.redaction, text, slow)
		}
		content, err := os.ReadFile(filepath.Join(o.Dir, tableName))
		if err != nil {
			t.Fatal(err)
		}
		if got := bytes.Contains(content, []byte("secret")); got != c.text {
			t.Errorf("%v: the text is in the file: %v", c.redaction, got)
		}
		if got := bytes.Contains(content, r.Normalized); got != c.normalized {
			t.Errorf("%v: the normalized text is in the file: %v", c.redaction, got)
		}
		if err := table.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSlowestRecentCalls checks that the slowest calls of an hour are kept.
func TestSlowestRecentCalls(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	table := mustOpen(t, Options{Now: func() time.Time { return now }})
	defer func() { _ = table.Close() }()
	observe := func(d time.Duration) {
		r := teststmt.Record(1, d)
		r.Start, r.Text = now, fmt.Appendf(nil, "select sleep(%v)", d)
		table.Observe(r)
	}
	slowest := func() (texts []string) {
		if err := table.Collect(func(*Sample) error { return nil }); err != nil {
			t.Fatal(err)
		}
		for _, c := range table.SlowCalls(nil, firstID) {
			texts = append(texts, fmt.Sprint(c.Duration, " ", c.Text))
		}
		return texts
	}
	for _, ms := range []time.Duration{5, 9, 1, 7, 2, 8, 3} {
		observe(ms * time.Millisecond)
	}
	if got, want := fmt.Sprint(slowest()), "[9ms select sleep(9ms) 8ms select sleep(8ms) 7ms select sleep(7ms)]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	now = now.Add(2 * time.Hour)
	if got := slowest(); len(got) != 0 {
		t.Errorf("two hours later: %v", got)
	}
	observe(time.Millisecond)
	if got := slowest(); len(got) != 1 || !strings.HasPrefix(got[0], "1ms") {
		t.Errorf("after another call: %v", got)
	}
}

func TestClassOf(t *testing.T) {
	for _, c := range []struct {
		number uint16
		state  string
		want   ErrorClass
	}{
		{1064, "42000", ClassSyntax},
		{1146, "42S02", ClassSyntax},
		{1045, "28000", ClassDenied},
		{1227, "42000", ClassDenied},
		{1062, "23000", ClassConstraint},
		{1406, "22001", ClassData},
		{1213, "40001", ClassDeadlock},
		{1205, "HY000", ClassTimeout},
		{1969, "70100", ClassTimeout},
		{1317, "70100", ClassKilled},
		{1290, "HY000", ClassReadOnly},
		{1040, "08004", ClassResource},
		{1160, "08S01", ClassConnection},
		{9999, "HY000", ClassOther},
		{9999, "", ClassOther},
	} {
		if got := ClassOf(c.number, c.state); got != c.want {
			t.Errorf("error %d (%s) is of class %s, want %s", c.number, c.state, got, c.want)
		}
	}
	seen := make(map[string]bool)
	for c := range ErrorClasses {
		seen[ErrorClass(c).String()] = true
	}
	if len(seen) != ErrorClasses {
		t.Errorf("%d names for %d classes", len(seen), ErrorClasses)
	}
}

// TestClassOfNumbers has a class for these numbers, and none for those beside them.
func TestClassOfNumbers(t *testing.T) {
	classes := make(map[uint16]ErrorClass)
	for class, numbers := range map[ErrorClass][]uint16{
		ClassDeadlock:   {1213, 1614},
		ClassTimeout:    {1205, 1613, 1907, 1969, 3024, 3572},
		ClassKilled:     {1317, 1927, 1053, 1078},
		ClassReadOnly:   {1290, 1036, 1792, 1836},
		ClassDenied:     {1227, 1045, 1044, 1095, 1142, 1143, 1370},
		ClassResource:   {1040, 1203, 1226, 1021, 1037, 1038, 1041, 1114, 1206, 1461},
		ClassConnection: {2013, 1158, 1159, 1160, 1161, 1152, 2006},
		ClassConstraint: {1451, 1452, 1216, 1217, 1062, 1586, 1048, 3819, 4025},
		ClassData:       {1366, 1364, 1292},
	} {
		for _, n := range numbers {
			classes[n] = class
		}
	}
	for n := range uint16(5000) {
		want, ok := classes[n]
		if !ok {
			want = ClassOther
		}
		if got := ClassOf(n, ""); got != want {
			t.Errorf("error %d is of class %s, want %s", n, got, want)
		}
	}
	for state, want := range map[string]ErrorClass{
		"4": ClassOther, "42": ClassSyntax, "23": ClassConstraint, "21": ClassData, "22": ClassData, "28": ClassDenied, "08": ClassConnection, "40": ClassDeadlock, "41": ClassOther,
	} {
		if got := ClassOf(9999, state); got != want {
			t.Errorf("SQLSTATE %s is of class %s, want %s", state, got, want)
		}
	}
}

// TestHeaderNumbers refuses a table with one number out of its range.
func TestHeaderNumbers(t *testing.T) {
	table := mustOpen(t, Options{MaxDigests: 4, Bytes: leastBytes(4)})
	defer table.Close()
	h := table.mem.header
	const next = 100
	h.nextID.Store(next)
	for _, c := range []struct {
		name  string
		field *atomic.Uint64
		value uint64
		ok    bool
	}{
		{"next ID", &h.nextID, firstID, true},
		{"next ID below the first", &h.nextID, firstID - 1, false},
		{"next ID beyond the last", &h.nextID, movedSet, false},
		{"last possible next ID", &h.nextID, movedSet - 1, true},
		{"evicted ID below the next", &h.moved, next - 1, true},
		{"evicted ID below the next, other set", &h.moved, movedSet | (next - 1), true},
		{"evicted ID not below the next", &h.moved, next, false},
		{"redaction", &h.redaction, uint64(querylog.RedactAll), true},
		{"unknown redaction", &h.redaction, uint64(querylog.RedactAll) + 1, false},
	} {
		before := c.field.Swap(c.value)
		if _, err := table.mem.owned(); (err == nil) != c.ok {
			t.Errorf("%s %#x: %v", c.name, c.value, err)
		}
		c.field.Store(before)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []Options{{MaxDigests: -1}, {Bytes: 1000}, {Turnover: -1}, {MinIdle: -1}, {MaxDigests: 1 << 30}} {
		if table, err := OpenTable(o); err == nil {
			_ = table.Close()
			t.Errorf("%+v is accepted", o)
		}
	}
}

func ExampleTable() {
	table, err := OpenTable(Options{MaxDigests: 100, Bytes: 1 << 20})
	if err != nil {
		panic(err)
	}
	defer func() { _ = table.Close() }()
	r := querylog.Record{Digest: [16]byte{1}, Normalized: []byte("select ?"), User: "app"}
	for ms := range 10 {
		r.Start, r.Total = time.Unix(1_770_000_000, 0), time.Duration(ms+1)*time.Millisecond
		table.Observe(&r)
	}
	_ = table.Collect(func(s *Sample) error {
		if s.Kind == Tracked {
			fmt.Println(s.Counts[Calls], s.User, s.Text, s.Histogram.Quantile(0.5).Round(100*time.Microsecond))
		}
		return nil
	})
	// Output:
	// 10 app select ? 5ms
}
