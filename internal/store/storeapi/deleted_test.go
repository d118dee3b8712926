package storeapi

import (
	"iter"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/thanos-io/objstore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/taredb/tare/internal/store/blocksync"
	"github.com/taredb/tare/internal/store/storepb"
	"github.com/taredb/tare/internal/testblock"
	"github.com/taredb/tare/internal/teststore"
)

// discardLog is a go-kit logger that discards everything.
type discardLog struct{}

func (discardLog) Log(...any) error { return nil }

// TestDeletedUnderStream deletes a block without a delay while its series are streamed. A stream whose block
// was replaced by another returns each series once and complete. Without a replacement, it stops where the
// deletion was detected. Both streams have a warning that names the block. If the bucket cannot be listed, or
// appears empty, the stream fails.
func TestDeletedUnderStream(t *testing.T) {
	shape := testblock.Shape{Count: 400, Samples: 12 * 120, Interval: 15 * time.Second, Seed: 1}
	same := shape.Series()
	other := func(yield func(testblock.Series) bool) {
		yield(testblock.Series{Labels: labels.FromStrings("other", "1"), Samples: []testblock.Sample{{T: 1, V: 1}}})
	}
	for name, later := range map[string]iter.Seq[testblock.Series]{"replaced": same, "gone": other, "empty": nil} {
		t.Run(name, func(t *testing.T) {
			bucket := objstore.NewInMemBucket()
			upload := func(series iter.Seq[testblock.Series]) string {
				dir := t.TempDir()
				id, err := testblock.Write(dir, series, testblock.Options{External: map[string]string{"region": "eu"}})
				if err != nil {
					t.Fatal(err)
				}
				if err := objstore.UploadDir(t.Context(), discardLog{}, bucket, filepath.Join(dir, id.String()), id.String()); err != nil {
					t.Fatal(err)
				}
				return id.String()
			}
			old := upload(same)
			o := teststore.Options(t, bucket)
			o.Layout = blocksync.LayoutThanos
			g := teststore.New(t, o)
			if err := g.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			client := storepb.NewStoreClient(teststore.Dial(t, New(g, Options{}).NewServer(), grpc.WithStaticStreamWindowSize(64<<10)))
			r := teststore.Everything()
			r.Matchers = []*storepb.LabelMatcher{teststore.Equal("foo", "bar")}
			want, _, err := teststore.Receive(client.Series(t.Context(), r))
			if err != nil || len(want) != shape.Count {
				t.Fatalf("%d series, %v", len(want), err)
			}

			stream, err := client.Series(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			first, err := stream.Recv() // the window keeps the server from reading far ahead
			if err != nil {
				t.Fatal(err)
			}
			if later != nil {
				upload(later)
			}
			for file := range bucket.Objects() {
				if strings.HasPrefix(file, old+"/") {
					if err := bucket.Delete(t.Context(), file); err != nil {
						t.Fatal(err)
					}
				}
			}
			rest, _, err := teststore.Receive(stream, nil)
			if name == "empty" { // the empty listing is not trusted
				if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), old) {
					t.Errorf("got %v, want an error that names block %s", err, old)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []*storepb.SeriesResponse
			warnings := 0
			for _, m := range append([]*storepb.SeriesResponse{first}, rest...) {
				if text := m.GetWarning(); text == "" {
					got = append(got, m)
				} else if warnings++; !strings.Contains(text, old) {
					t.Errorf("the warning %q does not name block %s", text, old)
				}
			}
			if warnings != 1 {
				t.Errorf("%d warnings, want 1", warnings)
			}
			if replaced := name == "replaced"; replaced && len(got) != len(want) || !replaced && len(got) >= len(want) {
				t.Errorf("%d series of %d", len(got), len(want))
			}
			for i := range min(len(got), len(want)) {
				if !equalVT(got[i].GetSeries(), want[i].GetSeries()) {
					t.Fatalf("series %d is %v, want %v", i, got[i].GetSeries().GetLabels(), want[i].GetSeries().GetLabels())
				}
			}
			teststore.WaitForIdle(t, g)
		})
	}
}
