package rollup

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thanos-io/objstore"

	"github.com/taredb/tare/internal/history/stmtstats"
)

// sample returns a rollup of an hour with one row per text; rows without a text are of other digests.
func sample(texts ...string) *Rollup {
	r := &Rollup{Start: time.Unix(7200, 0).UTC(), Span: Hour, Last: 7300_000, Labels: map[string]string{"instance": "gw-1"}}
	for i, text := range texts {
		k := stmtstats.Key{Digest: [16]byte{byte(i), byte(i >> 8), 1}, Schema: "shop", User: "app"}
		var h stmtstats.Histogram
		h.Record(time.Duration(i+1) * time.Millisecond)
		r.Rows = append(r.Rows, Row{
			Print: PrintOf(&k), Key: k, Text: text, First: 7200_000 + int64(i), Last: 7200_000 + 2*int64(i),
			Counts: stmtstats.Counts{stmtstats.Calls: 1, stmtstats.Nanos: h.Nanos}, Spread: h.AppendSpread(nil),
		})
	}
	return r
}

// opened returns the file of a rollup.
func opened(t *testing.T, r *Rollup) *File {
	t.Helper()
	text, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	f, err := Open(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestBuffers has the least and the greatest length of a buffer that is reused, and those beyond them.
func TestBuffers(t *testing.T) {
	for _, c := range []struct {
		n      int64
		cap    int
		reused bool
	}{
		{1<<leastBuffer - 1, 1 << leastBuffer, true},
		{1 << leastBuffer, 1 << leastBuffer, true},
		{1<<leastBuffer + 1, 2 << leastBuffer, true},
		{1 << (leastBuffer - 1), 1 << (leastBuffer - 1), false},
		{1 << mostBuffer, 1 << mostBuffer, true},
		{1<<mostBuffer + 1, 0, false},
	} {
		b := buffer(c.n)
		if int64(len(b)) != c.n || c.cap > 0 && cap(b) != c.cap {
			t.Errorf("%d bytes: length %d, capacity %d, want %d", c.n, len(b), cap(b), c.cap)
		}
		first, reused := &b[0], false
		for range 20 { // a pool may drop a buffer
			release(&b)
			if b != nil {
				t.Fatalf("%d bytes: the buffer is still used", c.n)
			}
			b = buffer(c.n)
			reused = reused || &b[0] == first
			first = &b[0]
		}
		if reused != c.reused {
			t.Errorf("%d bytes: reused %t", c.n, reused)
		}
	}
	odd := make([]byte, 5000)
	release(&odd) // its capacity is no power of two
	if b := buffer(5000); cap(b) != 8192 {
		t.Errorf("capacity %d", cap(b))
	}
}

// TestRelease has each reader without its buffers after its release, and usable.
func TestRelease(t *testing.T) {
	f := opened(t, sample("SELECT 1", "SELECT 2", ""))
	var u TextDecoder
	keys, err := f.Keys(PageBytes)
	texts, err2 := f.Texts(&u, PageBytes)
	spreads, err3 := f.Spreads(PageBytes)
	if err := errors.Join(err, err2, err3); err != nil {
		t.Fatal(err)
	}
	var before string
	for round := range 2 {
		var got strings.Builder
		for row := range f.NumRows {
			k, err := keys.Key(row)
			text, err2 := texts.Text(row)
			spread, err3 := spreads.Spread(row)
			if err := errors.Join(err, err2, err3); err != nil {
				t.Fatal(err)
			}
			got.WriteString(k.User + " " + string(text) + string(spread))
		}
		if round > 0 && got.String() != before {
			t.Errorf("after a release %q, want %q", got.String(), before)
		}
		before = got.String()
		used := map[string]*[]byte{
			"digests": &keys.digests.b, "users": &keys.numbers[1].b, "refs": &texts.refs.b, "places": &texts.places.b, "pages": &texts.pages.b, "page": &texts.page,
			"ends": &spreads.ends.b, "spreads": &spreads.spreads.b,
		}
		for name, b := range used {
			if *b == nil && name != "users" { // all users are the first name, whose number 0 has no bytes
				t.Errorf("%s are not read", name)
			}
		}
		keys.numbers[0].b, keys.numbers[1].b, keys.numbers[2].b = []byte{1}, []byte{1}, []byte{1}
		keys.Release()
		texts.Release()
		spreads.Release()
		used["schemas"], used["backends"] = &keys.numbers[0].b, &keys.numbers[2].b
		for name, b := range used {
			if *b != nil {
				t.Errorf("%s are not released", name)
			}
		}
		if texts.number != -1 {
			t.Errorf("page %d is valid", texts.number)
		}
	}
	u.Close()
	if _, err := u.decode(nil, nil); err == nil {
		t.Error("the decoder is not closed")
	}
	new(TextDecoder).Close()
}

// TestCloseReaders has the readers of details without their memory after Close.
func TestCloseReaders(t *testing.T) {
	r := sample("SELECT 1", "SELECT 2")
	f := opened(t, r)
	details := NewDetailReader([]*Detail{{Print: r.Rows[0].Print}})
	digests := NewDigestReader(r.Rows[1].Key.Digest)
	if err := errors.Join(details.Add(f), digests.Read(f, func(*Detail) {})); err != nil {
		t.Fatal(err)
	}
	found := digests.details.Of[0]
	if found.Spread == nil || details.column.b == nil || details.spreads.spreads.b == nil || digests.prints.b == nil {
		t.Fatal("nothing was read")
	}
	details.Close()
	digests.Close()
	for name, b := range map[string][]byte{
		"prints": details.prints, "column": details.column.b, "ends": details.spreads.ends.b, "spreads": details.spreads.spreads.b,
		"column of digests": digests.details.column.b, "digests": digests.digests, "prints of digests": digests.prints.b,
	} {
		if b != nil {
			t.Errorf("%s are not released", name)
		}
	}
	if found.Spread != nil {
		t.Error("the histogram is not released")
	}
	for _, u := range []*TextDecoder{&details.unzipper, &digests.details.unzipper} {
		if _, err := u.decode(nil, nil); err == nil {
			t.Error("a decoder is not closed")
		}
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	f.closer = closer{}
	if err := f.Close(); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("Close returns %v", err)
	}
}

type closer struct{}

func (closer) Close() error { return io.ErrClosedPipe }

// TestDurationsOfDetails has the sum of durations with the histogram, and none without rows.
func TestDurationsOfDetails(t *testing.T) {
	r := sample("SELECT 1")
	d := &Detail{Print: r.Rows[0].Print}
	if h := d.Durations(); h.Count() != 0 || h.Nanos != 0 {
		t.Errorf("without rows %d of %d ns", h.Count(), h.Nanos)
	}
	reader := NewDetailReader([]*Detail{d})
	defer reader.Close()
	for n := range uint64(3) {
		if err := reader.Add(opened(t, sample("SELECT 1"))); err != nil {
			t.Fatal(err)
		}
		if h := d.Durations(); h.Count() != n+1 || h.Nanos != (n+1)*1e6 {
			t.Errorf("%d rows: %d of %d ns", n+1, h.Count(), h.Nanos)
		}
	}
	Release([]*Detail{d})
	if d.Spread != nil || d.Counts[stmtstats.Calls] != 3 {
		t.Errorf("released: %+v", d)
	}
}

// TestWindows has the bytes per read: many pages if many Keys are read or the file is remote.
func TestWindows(t *testing.T) {
	f := opened(t, sample("SELECT 1"))
	f.columns[ColFirsts].bytes = 16 * PageBytes
	for _, c := range []struct {
		keys   int
		remote bool
		want   int64
	}{{4, false, PageBytes}, {5, false, manyWindow}, {4, true, RemoteWindow}, {5, true, RemoteWindow}} {
		f.Remote = c.remote
		r := NewDetailReader(make([]*Detail, 0))
		r.Of = make([]*Detail, c.keys)
		if got := r.window(f, ColFirsts); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// TestSingleDetail reads the rows of one Key without reads of columns in which all rows are 0.
func TestSingleDetail(t *testing.T) {
	r := sample("SELECT 1", "SELECT 2", "SELECT 3")
	f := opened(t, r)
	for c := range stmtstats.NumCounters {
		if zero := f.IsZero(ColumnOf(stmtstats.Counter(c))); zero != (c != int(stmtstats.Calls) && c != int(stmtstats.Nanos)) {
			t.Errorf("%v is zero: %t", stmtstats.Counter(c), zero)
		}
	}
	reader := NewDetailReader([]*Detail{{Print: r.Rows[1].Print, Known: true}})
	defer reader.Close()
	opening, _ := f.Reads()
	if err := reader.Add(f); err != nil {
		t.Fatal(err)
	}
	// Prints, two counts, first, last, and a spread with its end.
	if reads, _ := f.Reads(); reads-opening != 7 {
		t.Errorf("%d reads, want 7", reads-opening)
	}
	if any, err := reader.Find(opened(t, sample())); any || err != nil {
		t.Errorf("in an empty file: %t, %v", any, err)
	}
	none := NewDetailReader([]*Detail{{Print: Print{9}}})
	defer none.Close()
	before, _ := f.Reads()
	if err := none.Add(f); err != nil {
		t.Fatal(err)
	}
	if reads, _ := f.Reads(); reads-before != 1 {
		t.Errorf("%d reads for a Key that is not in the file, want that of the prints", reads-before)
	}
}

// TestColumnWindow reads ranges of a column of several pages: those in the window need no read, and those outside of it are read by pages.
func TestColumnWindow(t *testing.T) {
	r := sample(make([]string, 3000)...) // prints take 48,000 bytes: two pages and a part of a third
	f := opened(t, r)
	size := f.columns[ColPrints].bytes
	whole, err := f.Whole(ColPrints, nil)
	if err != nil || size <= 2*PageBytes || int64(len(whole)) != size {
		t.Fatalf("%d bytes, %v", size, err)
	}
	whole = slices.Clone(whole)
	column := f.Column(ColPrints, PageBytes)
	for _, c := range []struct { // one after the other
		at, n int64
		reads int64
		bytes int64
	}{
		{0, 1, 1, PageBytes},
		{0, PageBytes, 0, 0},
		{PageBytes - 1, 1, 0, 0},
		{PageBytes, 1, 1, PageBytes},
		{PageBytes - 1, 2, 1, 2 * PageBytes},
		{0, 2 * PageBytes, 0, 0},
		{0, size, 1, size},
		{size - 1, 1, 0, 0},
		{size, 0, 0, 0},
		{5, 0, 0, 0},
	} {
		readsBefore, bytesBefore := f.Reads()
		b, err := column.Bytes(c.at, c.n)
		reads, n := f.Reads()
		if err != nil || !bytes.Equal(b, whole[c.at:c.at+c.n]) || cap(b) != len(b) || reads-readsBefore != c.reads || n-bytesBefore != c.bytes {
			t.Errorf("%+v: %d bytes, %v, by %d reads of %d bytes", c, len(b), err, reads-readsBefore, n-bytesBefore)
		}
	}
	for _, c := range [][2]int64{{-1, 1}, {0, -1}, {0, size + 1}, {size, 1}, {size + 1, 0}} {
		column := f.Column(ColPrints, PageBytes)
		var bad *FormatError
		if b, err := column.Bytes(c[0], c[1]); !errors.As(err, &bad) {
			t.Errorf("%d bytes at %d: %d, %v", c[1], c[0], len(b), err)
		}
		if b, err := f.part(ColPrints, c[0], c[1], nil); !errors.As(err, &bad) {
			t.Errorf("%d bytes at %d of a part: %d, %v", c[1], c[0], len(b), err)
		}
	}
}

// TestNumbers has each width of a number, at its least and greatest value.
func TestNumbers(t *testing.T) {
	for n, want := range map[uint64]int{0: 0, 1: 1, 255: 1, 256: 2, 65535: 2, 65536: 4, 1<<32 - 1: 4, 1 << 32: 8, 1<<64 - 1: 8} {
		if got := widthOf(n); got != want {
			t.Errorf("%d has %d bytes, want %d", n, got, want)
		}
		r := sample("", "", "")
		for i := range r.Rows {
			r.Rows[i].Counts[stmtstats.RowsSent] = 0
		}
		r.Rows[1].Counts[stmtstats.RowsSent] = n
		f := opened(t, r)
		column, err := f.Numbers(ColumnOf(stmtstats.RowsSent), PageBytes)
		if err != nil || column.width != want {
			t.Fatalf("%d: width %d, %v", n, column.width, err)
		}
		for i := range r.Rows { // sorted since
			if got, err := column.Number(i); err != nil || got != r.Rows[i].Counts[stmtstats.RowsSent] {
				t.Errorf("%d in row %d: %d, %v", n, i, got, err)
			}
		}
		for _, width := range []int{3, 5, 7, 9} {
			f.columns[ColumnOf(stmtstats.RowsSent)].width = width
			var bad *FormatError
			if _, err := f.Numbers(ColumnOf(stmtstats.RowsSent), PageBytes); !errors.As(err, &bad) {
				t.Errorf("width %d: %v", width, err)
			}
		}
	}
}

// TestUncompressed has the same content with and without compression, and each page of texts ended by the next text that does not fit.
func TestUncompressed(t *testing.T) {
	long := strings.Repeat("x", textPage/2-binaryMax)
	texts := []string{long, long, "", "SELECT 1", long, strings.Repeat("y", textPage-binaryMax), "SELECT 2", strings.Repeat("z", textPage-2*binaryMax)}
	var u TextDecoder
	defer u.Close()
	var pages []int
	for _, plain := range []bool{false, true} {
		r := sample(texts...)
		want := make(map[Print]string)
		for _, row := range r.Rows {
			want[row.Print] = row.Text
		}
		r.Uncompressed = plain
		f := opened(t, r)
		got, err := f.Read(&u)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range got.Rows {
			if row.Text != want[row.Print] {
				t.Errorf("uncompressed %t: %d bytes, want %d", plain, len(row.Text), len(want[row.Print]))
			}
		}
		ends, err := f.textEnds()
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, len(ends))
		if size := f.columns[colTextPages].bytes; plain != (size > 3*textPage/2) {
			t.Errorf("uncompressed %t: %d bytes of texts", plain, size)
		}
	}
	if pages[0] != pages[1] || pages[0] < 3 {
		t.Errorf("%v pages of texts", pages)
	}
	same := sample("SELECT 1", "SELECT 1")
	same.Rows[1].Key.Digest = same.Rows[0].Key.Digest
	same.Rows[1].Key.User = "other"
	same.Rows[1].Print = PrintOf(&same.Rows[1].Key)
	if f := opened(t, same); f.texts != 1 {
		t.Errorf("%d texts of one digest", f.texts)
	}
}

const binaryMax = 5 // bytes of a length before a text

// TestSpreadsFail has each spread that is not one refused: by encoding, by merging, by limiting the rows.
func TestSpreadsFail(t *testing.T) {
	bad := []byte{0xff}
	if (&stmtstats.Histogram{}).AddSpread(bad) == nil {
		t.Fatal("it is a spread")
	}
	r := sample("SELECT 1")
	r.Rows[0].Spread = bad
	if _, err := r.Encode(); err == nil {
		t.Error("it is encoded")
	}
	for i := range 2 {
		hours := []*Rollup{sample("SELECT 1"), sample("SELECT 1")}
		hours[i].Rows[0].Spread = bad
		if _, err := mergeDay(r.Start, hours); err == nil {
			t.Errorf("that of hour %d is merged", i)
		}
	}
	many := sample(make([]string, MaxRows+1)...)
	for i := range many.Rows {
		many.Rows[i].Counts[stmtstats.Nanos] = 2
	}
	many.Rows[7].Spread, many.Rows[7].Counts[stmtstats.Nanos] = bad, 1
	if err := many.bound(); err == nil {
		t.Error("it is counted as Other")
	}
}

// TestMergeDay has the sums of hours, with the last text and time.
func TestMergeDay(t *testing.T) {
	early, late := sample("", "SELECT 2"), sample("SELECT 1", "of a later hour", "SELECT 3")
	late.Labels = map[string]string{"instance": "gw-2"}
	late.Last, late.Rows[1].Last = 9000_000, 8000_000
	day, err := mergeDay(time.Unix(0, 0).In(time.FixedZone("", 3600)), []*Rollup{late, early})
	if err != nil {
		t.Fatal(err)
	}
	if day.Last != 9000_000 || day.Start != time.Unix(0, 0).UTC() || day.Span != Day || day.Labels["instance"] != "gw-1" || len(day.Rows) != 3 {
		t.Errorf("%+v", day)
	}
	if day, err = mergeDay(time.Unix(0, 0), []*Rollup{early, late}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"SELECT 1", "SELECT 2", "SELECT 3"} {
		var h stmtstats.Histogram
		row := day.Rows[i]
		if err := h.AddSpread(row.Spread); err != nil || row.Text != want || h.Count() != row.Counts[stmtstats.Calls] || row.Counts[stmtstats.Calls] != [...]uint64{2, 2, 1}[i] {
			t.Errorf("row %d: %+v, %d calls, %v", i, row, h.Count(), err)
		}
	}
	if day.Rows[1].Last != 8000_000 || day.Rows[1].First != early.Rows[1].First {
		t.Errorf("times of %+v", day.Rows[1])
	}
}

// TestFileSize has the capacity of an encoded file not less than its length, so that it is built without a copy.
func TestFileSize(t *testing.T) {
	for _, n := range []int{0, 1, 100, 3000} {
		text, err := sample(make([]string, n)...).Encode()
		if err != nil || cap(text) < len(text) || cap(text) > len(text)+(64<<10) {
			t.Errorf("%d rows: %d bytes, capacity %d, %v", n, len(text), cap(text), err)
		}
	}
}

// A faultyBucket fails the n-th of its calls.
type faultyBucket struct {
	*objstore.InMemBucket
	n, calls int
}

var errBucket = errors.New("no bucket")

func (b *faultyBucket) fails() bool { b.calls++; return b.calls == b.n }

func (b *faultyBucket) Iter(ctx context.Context, dir string, f func(string) error, o ...objstore.IterOption) error {
	if b.fails() {
		return errBucket
	}
	return b.InMemBucket.Iter(ctx, dir, f, o...)
}

func (b *faultyBucket) Attributes(ctx context.Context, name string) (objstore.ObjectAttributes, error) {
	if b.fails() {
		return objstore.ObjectAttributes{}, errBucket
	}
	return b.InMemBucket.Attributes(ctx, name)
}

func (b *faultyBucket) GetRange(ctx context.Context, name string, offset, n int64) (io.ReadCloser, error) {
	if b.fails() {
		return nil, errBucket
	}
	r, err := b.InMemBucket.GetRange(ctx, name, offset, n)
	if err != nil || b.n >= 0 {
		return r, err
	}
	return struct {
		io.Reader
		io.Closer
	}{r, closer{}}, nil
}

// TestBucket lists and reads the rollups of gateways in a bucket, and has each of its calls fail.
func TestBucket(t *testing.T) {
	const epochA, epochB = "01ARZ3NDEKTSV4RRFFQ69G5FAV", "01BX5ZZKBKACTAV9WEVGEMMVRZ"
	r := sample("SELECT 1", "SELECT 2")
	text, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	name := Name{r.Start.Unix(), Hour}
	bucket := &faultyBucket{InMemBucket: objstore.NewInMemBucket()}
	object := path.Join(Prefix, "gw-1", epochA, name.String())
	for _, o := range []string{
		object, path.Join(Prefix, "gw-1", epochA, "day-1970-01-01.rollup"), path.Join(Prefix, "gw-1", epochA, "notes.txt"), path.Join(Prefix, "gw-1", epochB, name.String()),
		path.Join(Prefix, "gw-1", epochA[:20]), path.Join(Prefix, "gw-1", "none", name.String()), path.Join(Prefix, "gw-1", "01CX5ZZKBKACTAV9WEVGEMMVRZ"), path.Join(Prefix, "gw-2", epochB, name.String()),
	} {
		if err := bucket.Upload(t.Context(), o, bytes.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	day := Name{0, Day}
	want := []BucketDir{{"gw-1", epochA, []Name{day, name}}, {"gw-1", epochB, []Name{name}}, {"gw-2", epochB, []Name{name}}}
	asText := func(dirs []BucketDir) string {
		text, err := json.Marshal(dirs)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for instance, want := range map[string][]BucketDir{"": want, "gw-1": want[:2], "gw-2": want[2:], "gw-3": nil} {
		bucket.n, bucket.calls = 0, 0
		dirs, err := ListBucket(t.Context(), bucket, instance)
		if err != nil || asText(dirs) != asText(want) {
			t.Errorf("%q: %s, %v, want %s", instance, asText(dirs), err, asText(want))
		}
		for n := range bucket.calls {
			bucket.n, bucket.calls = n+1, 0
			if dirs, err := ListBucket(t.Context(), bucket, instance); !errors.Is(err, errBucket) || dirs != nil {
				t.Errorf("%q, call %d fails: %v, %v", instance, n, dirs, err)
			}
		}
	}
	read := func() error {
		f, err := OpenRemote(t.Context(), bucket, object, name)
		if err != nil {
			return err
		}
		if !f.Remote || f.little() != RemoteWindow {
			t.Error("the file is not remote")
		}
		var u TextDecoder
		defer u.Close()
		got, err := f.Read(&u)
		if err == nil && (len(got.Rows) != 2 || got.Last != r.Last) {
			t.Errorf("%+v", got)
		}
		return err
	}
	bucket.n, bucket.calls = 0, 0
	if err := read(); err != nil || bucket.calls < 5 {
		t.Fatalf("%v after %d calls", err, bucket.calls)
	}
	for n := range bucket.calls {
		bucket.n, bucket.calls = n+1, 0
		if err := read(); !errors.Is(err, errBucket) {
			t.Errorf("call %d fails: %v", n, err)
		}
	}
	bucket.n = 0
	if _, err := OpenRemote(t.Context(), bucket, object, day); err == nil || !strings.Contains(err.Error(), "another time") {
		t.Errorf("a file of another span: %v", err)
	}
	if _, err := OpenRemote(t.Context(), bucket, object, Name{0, Hour}); err == nil || !strings.Contains(err.Error(), "another time") {
		t.Errorf("a file of another hour: %v", err)
	}
	at := &objectReader{ctx: t.Context(), bucket: bucket, name: object}
	b := make([]byte, 10)
	if n, err := at.ReadAt(b, int64(len(text))-4); n != 4 || !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("at the end: %d bytes, %v", n, err)
	}
	if n, err := at.ReadAt(b, int64(len(text))-10); n != 10 || err != nil {
		t.Errorf("the last bytes: %d, %v", n, err)
	}
	bucket.n = -1
	if _, err := at.ReadAt(b, 0); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a response that cannot be closed: %v", err)
	}
}
