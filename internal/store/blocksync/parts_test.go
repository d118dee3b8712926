package blocksync

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/tombstones"
	"github.com/thanos-io/objstore"

	"github.com/taredb/tare/store/tsblock"
)

func idOf(n byte) ulid.ULID { return ulid.ULID{0, 0, 0, 0, 0, n, 1} }

// TestTimeRanges has the ends of ranges, and the blocks outside of them.
func TestTimeRanges(t *testing.T) {
	bound := func(text string) TimeBound {
		b, err := ParseTimeBound(text)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{"2026-01-31T00:00:00Z": time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC), "-2w": now.AddDate(0, 0, -14), "1h": now.Add(time.Hour), "0s": now, "-0s": now} {
		if b := bound(text); b.millis(now) != want.UnixMilli() || b.String() != text {
			t.Errorf("%s is %d of %s", text, b.millis(now), b)
		}
	}
	for _, text := range []string{"-", "--1h", "1", "yesterday", "+1h", " "} {
		if b, err := ParseTimeBound(text); err == nil {
			t.Errorf("%q is %+v", text, b)
		}
	}
	all, r := TimeRange{}, TimeRange{bound("1970-01-01T00:00:01Z"), bound("1970-01-01T00:00:02Z")}
	for _, c := range []struct {
		r    TimeRange
		want string
		zero bool
	}{{all, "the beginning to the end", true}, {r, "1970-01-01T00:00:01Z to 1970-01-01T00:00:02Z", false}, {TimeRange{Max: r.Max}, "the beginning to 1970-01-01T00:00:02Z", false}, {TimeRange{Min: r.Min}, "1970-01-01T00:00:01Z to the end", false}} {
		if c.r.String() != c.want || c.r.IsZero() != c.zero || c.r.Validate() != nil {
			t.Errorf("%s: %v", c.want, c.r)
		}
	}
	if err := (TimeRange{r.Max, r.Min}).Validate(); err == nil {
		t.Error("a range without a time is valid")
	}
	if err := (TimeRange{r.Min, r.Min}).Validate(); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		mint, maxt int64
		known      bool
		want       bool
	}{{0, 1000, true, true}, {0, 1001, true, false}, {2000, 3000, true, false}, {2001, 3000, true, true}, {1000, 1000, true, false}, {0, 1, false, false}} {
		if got := r.outside(blockTimes{known: c.known, mint: c.mint, maxt: c.maxt}); got != c.want {
			t.Errorf("%+v is outside: %v", c, got)
		}
	}
	s := &Syncer{options: Options{Times: r}}
	for _, c := range [][4]int64{
		{0, 5000, 1000, 2000},
		{1500, 1600, 1500, 1600},
		{1000, 2000, 1000, 2000},
		{0, 999, math.MaxInt64, math.MinInt64},
		{2001, 5000, math.MaxInt64, math.MinInt64},
		{2000, 2000, 2000, 2000},
		{1600, 1500, 1600, 1500},
		{5000, 0, 5000, 0},
	} {
		if from, to := s.Clip(c[0], c[1]); from != c[2] || to != c[3] {
			t.Errorf("%d to %d: %d to %d", c[0], c[1], from, to)
		}
	}
	served := &block{id: idOf(1), minTime: 500, maxTime: 2500}
	tenant := &Tenant{blocks: []*block{served}, longest: 2000, times: r}
	if m := tenant.Missing(1000, 2000, AnyResolution, nil, nil); len(m.gaps) != 0 {
		t.Errorf("within the range: %v", m.Warnings())
	}
	for _, c := range [][2]int64{{999, 2000}, {1000, 2001}, {0, 5000}} {
		m := tenant.Missing(c[0], c[1], AnyResolution, nil, nil)
		if len(m.gaps) != 1 || !strings.Contains(strings.Join(m.Warnings(), ""), "served only for "+r.String()) || len(m.WithoutOthers().gaps) != 0 || len(m.gaps) != 1 {
			t.Errorf("%v: %v", c, m.Warnings())
		}
	}
	if m := tenant.Missing(0, 400, AnyResolution, nil, nil); len(m.gaps) != 0 {
		t.Errorf("before the block: %v", m.Warnings())
	}
	tenant.blocks = []*block{{id: idOf(1), minTime: 1200, maxTime: 1500}}
	for _, c := range [][2]int64{{0, 1800}, {1100, 3000}, {0, 3000}} {
		if m := tenant.Missing(c[0], c[1], AnyResolution, nil, nil); len(m.gaps) != 0 {
			t.Errorf("a block within the range, %v: %v", c, m.Warnings())
		}
	}
	tenant.skipped = []SkippedBlock{{ID: idOf(2).String(), Reason: SkipTimeRange}, {ID: idOf(3).String(), Reason: SkipMarked}}
	if found := tenant.outside(); len(found) != 1 {
		t.Errorf("outside: %v", found)
	}
}

// TestOverlaps has the ends of a block's time, the last of which is exclusive.
func TestOverlaps(t *testing.T) {
	b := blockTimes{known: true, mint: 10, maxt: 20}
	for _, c := range []struct {
		b          blockTimes
		mint, maxt int64
		want       bool
	}{
		{b, 0, 9, false},
		{b, 0, 10, true},
		{b, 19, 30, true},
		{b, 20, 30, false},
		{b, 12, 13, true},
		{b, 0, 30, true},
		{blockTimes{}, 0, 1, true},
		{blockTimes{known: true, mint: 10, maxt: 10}, 10, 10, true},
		{blockTimes{known: true, mint: 10, maxt: 10}, 11, 12, false},
		{blockTimes{known: true, mint: 10, maxt: 10}, 0, 9, false},
	} {
		if got := c.b.overlaps(c.mint, c.maxt); got != c.want {
			t.Errorf("%s and %d to %d: %v", c.b, c.mint, c.maxt, got)
		}
	}
	if (blockTimes{}).String() != "times unknown" || b.String() != "1970-01-01T00:00:00Z to 1970-01-01T00:00:00Z" {
		t.Errorf("%s, %s", blockTimes{}, b)
	}
}

// TestGaps has the blocks that a result lacks, by their time, labels and ids; the reasons that deny a complete result.
func TestGaps(t *testing.T) {
	eu := labels.FromStrings("cluster", "eu")
	at := func(mint, maxt int64) blockTimes {
		return blockTimes{known: true, mint: mint, maxt: maxt, external: eu}
	}
	tenant := &Tenant{
		blocks: []*block{{id: idOf(40), minTime: 0, maxTime: 50, external: eu}, {id: idOf(41), minTime: 50, maxTime: 100, external: eu}},
		skipped: []SkippedBlock{
			{ID: idOf(1).String(), Reason: SkipDamaged, Detail: "bad bytes", times: at(0, 100)},
			{ID: idOf(2).String(), Reason: SkipMarked, times: at(0, 100)},
			{ID: idOf(3).String(), Reason: SkipDownsampled, times: at(0, 100)},
			{ID: idOf(4).String(), Reason: SkipDownsampled, times: at(0, 101)},
			{ID: idOf(5).String(), Reason: SkipNoMeta, deleting: true},
			{ID: idOf(6).String(), Reason: SkipNoMeta},
			{ID: "odd", is: idOf(7), odd: "odd", Reason: SkipMisnamed, times: at(200, 300)},
			{ID: "replaced", is: idOf(8), odd: "odd", replaced: true, Reason: SkipMisnamed},
		},
		suspects: []gap{{id: idOf(20), times: at(0, 10), external: eu}},
	}
	tenant.collectGaps()
	names := func(m Missing) string {
		var all []string
		for _, g := range m.gaps {
			all = append(all, fmt.Sprint(g.id[5]))
		}
		for _, g := range m.suspects {
			all = append(all, fmt.Sprint("s", g.id[5]))
		}
		return strings.Join(all, " ")
	}
	us := labels.MustNewMatcher(labels.MatchEqual, "cluster", "us")
	isEU, other := labels.MustNewMatcher(labels.MatchEqual, "cluster", "eu"), labels.MustNewMatcher(labels.MatchEqual, "job", "x")
	one := labels.MustNewMatcher(labels.MatchEqual, BlockIDLabel, idOf(1).String())
	for name, c := range map[string]struct {
		mint, maxt int64
		ms, ids    []*labels.Matcher
		want       string
	}{
		"all":             {0, 1000, nil, nil, "1 4 6 7 s20"},
		"later":           {150, 1000, nil, nil, "6 7"},
		"at the end":      {100, 120, nil, nil, "4 6"},
		"another cluster": {0, 1000, []*labels.Matcher{us}, nil, "6"},
		"its cluster":     {0, 1000, []*labels.Matcher{other, isEU}, nil, "1 4 6 7 s20"},
		"one id":          {0, 1000, nil, []*labels.Matcher{one}, "1"},
	} {
		if got := names(tenant.Missing(c.mint, c.maxt, AnyResolution, c.ms, c.ids)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	m := tenant.Missing(0, 1000, AnyResolution, nil, nil)
	text := strings.Join(m.Warnings(), "\n")
	if !m.Denies() || len(m.Annotations()) != len(m.Warnings()) || len(m.Warnings()) != 5 || !strings.Contains(text, "bad bytes") || !strings.Contains(text, "block odd (") || !strings.Contains(text, "the bucket lacks 1 blocks") {
		t.Errorf("%d warnings: %s", len(m.Warnings()), text)
	}
	if without := m.Without(func(id ulid.ULID) bool { return id != idOf(6) }); names(without) != "6 s20" || without.Denies() || names(m) != "1 4 6 7 s20" {
		t.Errorf("without the others: %s", names(without))
	}
	for reason, want := range map[SkipReason][2]bool{
		SkipMarked: {false, false}, SkipUploading: {false, false}, SkipTemporary: {false, false}, SkipNoMeta: {true, false}, SkipMisnamed: {true, false},
		SkipNoDirectory: {true, false}, SkipDamaged: {true, true}, SkipOtherShard: {true, true},
	} {
		if warn, deny := reason.missing(); [2]bool{warn, deny} != want {
			t.Errorf("%s: warns %v, denies %v", reason, warn, deny)
		}
	}
	if m := (*Tenant)(nil).Missing(0, 1, AnyResolution, nil, nil); m.Denies() || len(m.Warnings()) > 0 {
		t.Errorf("no tenant: %v", m.Warnings())
	}
	if m := (Missing{unsynced: io.EOF, absent: true}); !m.Denies() || len(m.Warnings()) != 2 || !strings.Contains(m.Warnings()[0], "EOF") {
		t.Errorf("before the first sync: %v", m.Warnings())
	}
	var many []*gap
	for i := range byte(maxNamed + 2) {
		many = append(many, &gap{id: idOf(i), detail: "detail " + fmt.Sprint(i)}, &gap{id: idOf(i), reason: SkipDamaged})
	}
	for n, want := range map[int]string{0: "", 1: "detail 0", maxNamed: idOf(maxNamed - 1).String(), maxNamed + 1: "; and 1 more", maxNamed + 2: "; and 2 more"} {
		got, names := nameGaps(many[:2*n], "")
		if got != n || !strings.HasSuffix(names, want) && !strings.Contains(names, want) || strings.Contains(names, "more") != strings.Contains(want, "more") || strings.Contains(names, "detail 1") {
			t.Errorf("%d gaps: %d%s", n, got, names)
		}
	}
	for name, c := range map[string]struct {
		times blockTimes
		want  bool
	}{"both": {at(0, 100), true}, "one": {at(10, 40), true}, "more": {at(0, 101), false}, "before": {at(-1, 50), false}, "unknown": {blockTimes{}, false}, "other labels": {blockTimes{known: true, maxt: 50}, false}} {
		if got := tenant.covers(c.times, func(*block) bool { return true }); got != c.want {
			t.Errorf("%s: covered %v", name, got)
		}
	}
	if tenant.covers(at(0, 100), func(b *block) bool { return b.minTime > 0 }) {
		t.Error("covered by blocks that do not count")
	}
}

// TestTombstoneFiles parses files of deletions, and refuses those that are damaged anywhere.
func TestTombstoneFiles(t *testing.T) {
	file := func(entries ...[3]int64) []byte {
		b := binary.BigEndian.AppendUint32(nil, tombstonesMagic)
		body := []byte{1}
		for _, e := range entries {
			body = binary.AppendUvarint(body, uint64(e[0]))
			body = binary.AppendVarint(binary.AppendVarint(body, e[1]), e[2])
		}
		return binary.BigEndian.AppendUint32(append(b, body...), crc32.Checksum(body[1:], crc32.MakeTable(crc32.Castagnoli)))
	}
	d, err := parseTombstones(file([3]int64{7, 10, 20}, [3]int64{7, 40, 50}, [3]int64{1<<32 - 1, -5, 5}))
	if err != nil || len(d) != 2 || len(d.Of(7)) != 2 || d.Of(7)[1] != (tombstones.Interval{Mint: 40, Maxt: 50}) || d.Of(8) != nil {
		t.Fatalf("%v (%v)", d, err)
	}
	whole := d.Whole()
	for _, c := range []struct {
		ref        uint32
		mint, maxt int64
		want       bool
	}{{7, 10, 20, true}, {7, 12, 15, true}, {7, 10, 21, false}, {7, 9, 20, false}, {7, 10, 50, false}, {8, 10, 20, false}, {1<<32 - 1, 0, 0, true}} {
		if got := whole(c.ref, c.mint, c.maxt); got != c.want {
			t.Errorf("%+v is deleted: %v", c, got)
		}
	}
	none, err := parseTombstones(file())
	if err != nil || none.Whole() != nil || none.Of(7) != nil || Deletions(nil).Whole() != nil {
		t.Errorf("no deletions: %v (%v)", none, err)
	}
	if _, err := parseTombstones(file([3]int64{1 << 32, 0, 1})); err == nil {
		t.Error("a series whose number is too large")
	}
	good := file([3]int64{7, 10, 20})
	for n := range good {
		if _, err := parseTombstones(good[:n]); err == nil {
			t.Errorf("the first %d bytes are taken", n)
		}
		bad := bytes.Clone(good)
		if bad[n] ^= 0x40; n != 4 {
			if _, err := parseTombstones(bad); err == nil {
				t.Errorf("byte %d is damaged", n)
			}
		}
	}
	other := bytes.Clone(good)
	other[4] = 2
	if _, err := parseTombstones(other); err == nil {
		t.Error("another version is taken")
	}
}

// TestNames parses the names of layouts, marks, segments and resolutions.
func TestNames(t *testing.T) {
	for text, want := range map[string]Layout{"": LayoutAuto, "auto": LayoutAuto, "prometheus": LayoutPrometheus, "thanos": LayoutThanos, "mimir": LayoutMimir} {
		if got, err := ParseLayout(text); err != nil || got != want {
			t.Errorf("%q: %v (%v)", text, got, err)
		}
	}
	if _, err := ParseLayout("cortex"); err == nil {
		t.Error("an unknown layout is taken")
	}
	for name, want := range map[string]int32{
		"chunks/000001": 1, "chunks/999999": 999999, "chunks/1000000": 1000000, "chunks/0000001": 0, "chunks/00001": 0, "chunks/000000": 0, "chunks/00000a": 0, "000001": 0, "chunks/": 0,
		"chunks/2147483647": 2147483647, "chunks/2147483648": 0, "chunks/+00001": 0,
	} {
		if got, ok := segmentNumber(name); got != want || ok != (want > 0) {
			t.Errorf("%s: %d, %v", name, got, ok)
		}
	}
	id := idOf(1).String()
	for name, want := range map[string]seen{
		id + "-deletion-mark.json": sawDeletionMark, id + "-no-compact-mark.json": sawNoCompact, id + "-other.json": 0, id: 0, id + "-": 0, id + "_deletion-mark.json": 0, "": 0,
		"01arz3ndektsv4rrffq69g5fav-deletion-mark.json": 0, strings.Repeat("Z", 26) + "-deletion-mark.json": 0,
	} {
		got, mark, ok := parseMarker(name)
		if ok != (want > 0) || ok && (got != idOf(1) || mark != want) {
			t.Errorf("%s: %v, %v, %v", name, got, mark, ok)
		}
	}
	if got := markerName("t", idOf(1)); got != "t/markers/"+id+"-deletion-mark.json" {
		t.Error(got)
	}
	for name, want := range map[string]bool{"markers": true, "bucket-index.json.gz": true, "bucket-index.json": true, "tenant-deletion-mark.json": true, "debug": true, "x": false} {
		if isMimirEntry(name) != want {
			t.Errorf("%s is Mimir's: %v", name, !want)
		}
	}
	for r, want := range map[Resolution]string{Raw: "raw", FiveMinutes: "5m", OneHour: "1h", 90 * 1000: "1m30s", 2 * OneHour: "2h"} {
		if r.String() != want {
			t.Errorf("%d is %s, want %s", r, r, want)
		}
	}
	for r, want := range map[Resolution]string{AnyResolution: "[0 1 2]", Raw: "[0]", FiveMinutes - 1: "[0]", FiveMinutes: "[1 0]", OneHour: "[2 1 0]", 2 * OneHour: "[2 1 0]"} {
		if got := fmt.Sprint(r.preferred()); got != want {
			t.Errorf("%s prefers %s, want %s", r, got, want)
		}
	}
	for name, want := range map[string]string{
		"t/" + id + "/index": "t " + id + " index", id + "/chunks/000001": " " + id + " chunks/000001", "t/x": "none", id + "/" + idOf(2).String() + "/meta.json": id + " " + idOf(2).String() + " meta.json",
	} {
		tenant, block, file, ok := missingBlock(fmt.Errorf("read: %w", &missingError{"b", name, io.EOF}))
		got := "none"
		if ok {
			got = tenant + " " + block.String() + " " + file
		}
		if got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if _, _, _, ok := missingBlock(io.EOF); ok {
		t.Error("an error of no object names a block")
	}
}

// TestBucketIndex parses the list of a tenant's blocks, and refuses one that it does not know.
func TestBucketIndex(t *testing.T) {
	packed := func(text string) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write([]byte(text))
		_ = z.Close()
		return b.Bytes()
	}
	id := idOf(1).String()
	for name, c := range map[string]struct {
		b  []byte
		ok bool
	}{
		"version 1":      {packed(`{"version":1,"blocks":[{"block_id":"` + id + `"}],"block_deletion_marks":[{"block_id":"` + id + `","deletion_time":5}],"updated_at":9}`), true},
		"version 2":      {packed(`{"version":2}`), true},
		"version 0":      {packed(`{}`), false},
		"version 3":      {packed(`{"version":3}`), false},
		"a block":        {packed(`{"version":1,"blocks":[{"block_id":"x"}]}`), false},
		"a mark":         {packed(`{"version":1,"block_deletion_marks":[{"block_id":"x"}]}`), false},
		"null":           {packed(`{"version":1,"blocks":null,"block_deletion_marks":null}`), true},
		"other keys":     {packed(`{"other":[{"a":[1,"]"]}],"more":{},"version":2,"last":null}`), true},
		"a number":       {packed(`{"version":1,"blocks":7}`), false},
		"an array":       {packed(`[]`), false},
		"two values":     {packed(`{"version":1} {}`), false},
		"an empty block": {packed(`{"version":1,"blocks":[{}]}`), false},
		"no JSON":        {packed(`{`), false},
		"not compressed": {[]byte(`{"version":1}`), false},
		"cut":            {packed(`{"version":1}`)[:20], false},
	} {
		index, err := parseBucketIndex(c.b)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
		if name == "version 1" && (len(index.Blocks) != 1 || index.Marks[0].DeletionTime != 5 || index.UpdatedAt != 9) {
			t.Errorf("%+v", index)
		}
	}
}

// TestDeletionMarks parses marks of version 1 with a time.
func TestDeletionMarks(t *testing.T) {
	for text, want := range map[string]int64{
		`{"version":1,"deletion_time":5}`: 5, `{"version":1,"deletion_time":1}`: 1, `{"version":1,"deletion_time":0}`: 0, `{"version":1,"deletion_time":-1}`: 0, `{"version":2,"deletion_time":5}`: 0,
		`{"deletion_time":5}`: 0, `{"version":1,"deletion_time":5`: 0, `{"version":1,"deletion_time":5}x`: 0, `{"version":1,"deletion_time":5,"id":7}`: 0,
	} {
		if got, err := parseDeletionMark([]byte(text)); got != want || (err == nil) != (want > 0) {
			t.Errorf("%s: %d (%v), want %d", text, got, err, want)
		}
	}
}

// A scriptedSource responds to each read after a time, with a byte or an error.
type scriptedSource struct {
	tsblock.Source
	calls   int
	after   []time.Duration
	results []error
}

func (s *scriptedSource) ReadRange(ctx context.Context, _ string, _ int64, dst []byte) (int, error) {
	i := s.calls
	s.calls++
	select {
	case <-time.After(s.after[i]):
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	if s.results[i] != nil {
		return 0, s.results[i]
	}
	dst[0] = byte('1' + i)
	return 1, nil
}

// TestPatientReads retries failed reads, hedges slow ones and bounds the time of each; some errors are not retried.
func TestPatientReads(t *testing.T) {
	boom, gone := errors.New("boom"), errors.New("gone")
	const s = time.Second
	for name, c := range map[string]struct {
		hedge    time.Duration
		after    []time.Duration
		results  []error
		want     string // the byte; "": an error
		err      error
		calls    int
		retries  uint64
		hedges   uint64
		canceled bool
	}{
		"at once":                 {0, []time.Duration{0}, []error{nil}, "1", nil, 1, 0, 0, false},
		"the second try":          {0, []time.Duration{0, 0}, []error{boom, nil}, "2", nil, 2, 1, 0, false},
		"no more tries":           {0, []time.Duration{0, 0, 0}, []error{boom, boom, boom}, "", boom, 3, 2, 0, false},
		"missing":                 {0, []time.Duration{0}, []error{gone}, "", gone, 1, 0, 0, false},
		"beyond the end":          {0, []time.Duration{0}, []error{tsblock.ErrObjectEnd}, "", tsblock.ErrObjectEnd, 1, 0, 0, false},
		"slow":                    {0, []time.Duration{time.Hour, 0}, []error{nil, nil}, "2", nil, 2, 1, 0, false},
		"always slow":             {0, []time.Duration{time.Hour, time.Hour, time.Hour}, []error{nil, nil, nil}, "", errTimeout, 3, 2, 0, false},
		"canceled":                {0, []time.Duration{time.Hour}, []error{nil}, "", context.Canceled, 1, 0, 0, true},
		"faster than the hedge":   {s, []time.Duration{s - 1}, []error{nil}, "1", nil, 1, 0, 0, false},
		"the first wins":          {s, []time.Duration{2 * s, 5 * s}, []error{nil, nil}, "1", nil, 2, 0, 1, false},
		"the hedge wins":          {s, []time.Duration{9 * s, s}, []error{nil, nil}, "2", nil, 2, 0, 1, false},
		"the first fails late":    {s, []time.Duration{2 * s, 3 * s}, []error{boom, nil}, "2", nil, 2, 0, 1, false},
		"the hedge fails":         {s, []time.Duration{4 * s, s}, []error{nil, boom}, "1", nil, 2, 0, 1, false},
		"both fail, then a retry": {s, []time.Duration{4 * s, s, 0}, []error{boom, boom, nil}, "3", nil, 3, 1, 1, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.canceled {
				time.AfterFunc(s, cancel)
			}
			source, m, nudged := &scriptedSource{after: c.after, results: c.results}, new(metrics), 0
			p := &patientSource{
				source: &watchedSource{Source: source, bucket: "b", metrics: m, gone: func() { nudged++ }, notFound: func(err error) bool { return errors.Is(err, gone) }},
				bucket: objstore.NewInMemBucket(), timeout: 10 * s, tries: 3, hedge: c.hedge, metrics: m,
			}
			var waiting Waiting
			dst := make([]byte, 4)
			n, err := p.ReadRange(waiting.Context(ctx), "object", 0, dst)
			if got := string(dst[:n]); got != c.want || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
				t.Errorf("%s: %q (%v), want %q", name, got, err, c.want)
			}
			if source.calls != c.calls || m.readRetries.Load() != c.retries || m.readHedges.Load() != c.hedges || (nudged > 0) != (c.err == gone) { //nolint:errorlint // the same one
				t.Errorf("%s: %d calls, %d retries, %d hedges", name, source.calls, m.readRetries.Load(), m.readHedges.Load())
			}
			if what := waiting.Object(); (what == "") != (err == nil) || err != nil && what != "object in bucket b" {
				t.Errorf("%s: it waits for %q", name, what)
			}
		})
	}
	if slices.Contains([]string{(&BucketError{"b", "o", io.EOF}).Error(), (&missingError{"b", "o", io.EOF}).Error()}, "") || !errors.Is(&BucketError{Err: io.EOF}, io.EOF) || IsNotFound(io.EOF) {
		t.Error("errors of the bucket")
	}
}
