package remotewrite

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
)

// TestEncoder has Prometheus decode requests of both versions, with labels whose lengths take one byte and two, and with each type
// of metric.
func TestEncoder(t *testing.T) {
	var all []labels.Labels
	for _, n := range []int{0, 1, 60, 127, 128, 20_000} {
		all = append(all, labels.FromStrings("__name__", "m", "value", strings.Repeat("v", n), strings.Repeat("n", n+1), "x"))
	}
	encode := func(v Version, metadata func(string) (model.MetricType, string)) []request {
		e := newEncoder(v, metadata)
		for i, ls := range all {
			e.begin()
			e.float(int64(i), 1.5)
			e.float(int64(i)<<40, -1)
			e.histogram(int64(i)+1, tsdbutil.GenerateTestHistogram(3))
			e.floatHistogram(int64(i)+2, tsdbutil.GenerateTestFloatHistogram(4))
			e.end(ls)
		}
		e.finish()
		if len(e.requests) != 1 || e.requests[0].samples != 2*len(all) || e.requests[0].histograms != 2*len(all) {
			t.Fatalf("%d requests of %v", len(e.requests), v)
		}
		return e.requests
	}
	builder := labels.NewScratchBuilder(0)
	var one prompb.WriteRequest
	if err := one.Unmarshal(encode(V1, nil)[0].body); err != nil || len(one.Timeseries) != len(all) {
		t.Fatalf("%d series, %v", len(one.Timeseries), err)
	}
	for i, s := range one.Timeseries {
		if got := s.ToLabels(&builder, nil); !labels.Equal(got, all[i]) {
			t.Errorf("1.0: %v, want %v", got, all[i])
		}
		if got := fmt.Sprint(s.Samples); got != fmt.Sprint([]prompb.Sample{{Value: 1.5, Timestamp: int64(i)}, {Value: -1, Timestamp: int64(i) << 40}}) {
			t.Errorf("1.0: samples %s", got)
		}
		if len(s.Histograms) != 2 || !s.Histograms[0].ToIntHistogram().Equals(tsdbutil.GenerateTestHistogram(3)) || s.Histograms[0].Timestamp != int64(i)+1 ||
			!s.Histograms[1].ToFloatHistogram().Equals(tsdbutil.GenerateTestFloatHistogram(4)) || s.Histograms[1].Timestamp != int64(i)+2 {
			t.Errorf("1.0: histograms %v", s.Histograms)
		}
	}
	for kind, want := range map[model.MetricType]model.MetricType{
		model.MetricTypeCounter: model.MetricTypeCounter, model.MetricTypeGauge: model.MetricTypeGauge, model.MetricTypeHistogram: model.MetricTypeHistogram,
		model.MetricTypeSummary: model.MetricTypeUnknown, "": model.MetricTypeUnknown,
	} {
		var two writev2.Request
		if err := two.Unmarshal(encode(V2, func(string) (model.MetricType, string) { return kind, "help" })[0].body); err != nil || len(two.Timeseries) != len(all) {
			t.Fatalf("%d series, %v", len(two.Timeseries), err)
		}
		for i, s := range two.Timeseries {
			got, err := s.ToLabels(&builder, two.Symbols)
			if err != nil || !labels.Equal(got, all[i]) {
				t.Errorf("2.0: %v, %v, want %v", got, err, all[i])
			}
			m, err := s.ToMetadata(two.Symbols)
			help := "help"
			if want == model.MetricTypeUnknown {
				help = ""
			}
			if err != nil || m.Type != want || m.Help != help {
				t.Errorf("2.0: metadata %+v of %q, %v", m, kind, err)
			}
			if len(s.Samples) != 2 || len(s.Histograms) != 2 {
				t.Errorf("2.0: %d samples, %d histograms", len(s.Samples), len(s.Histograms))
			}
		}
	}
}
