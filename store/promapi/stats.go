package promapi

import (
	"strconv"

	"github.com/prometheus/prometheus/util/stats"
)

// appendStats appends the costs of a query: seconds by phase, and samples, also by step if the engine was
// requested to count them.
func appendStats(dst []byte, s *stats.Statistics) []byte {
	all := stats.NewQueryStats(s).Builtin()
	t := all.Timings
	dst = append(dst, `{"timings":`...)
	for i, phase := range [...]struct {
		name    string
		seconds float64
	}{
		{"evalTotalTime", t.EvalTotalTime},
		{"resultSortTime", t.ResultSortTime},
		{"queryPreparationTime", t.QueryPreparationTime},
		{"innerEvalTime", t.InnerEvalTime},
		{"execQueueTime", t.ExecQueueTime},
		{"execTotalTime", t.ExecTotalTime},
	} {
		dst = append(dst, "{,"[min(i, 1)])
		dst = appendKey(dst, phase.name)
		dst = appendFloat(dst, phase.seconds)
	}
	dst = append(dst, '}')
	if n := all.Samples; n != nil {
		dst = append(dst, `,"samples":{`...)
		if steps := n.TotalQueryableSamplesPerStep; len(steps) > 0 {
			dst = append(dst, `"totalQueryableSamplesPerStep":`...)
			for i, x := range steps {
				dst = appendStep(dst, i, x.T, x.V)
			}
			dst = append(dst, ']', ',')
		}
		dst = append(dst, `"totalQueryableSamples":`...)
		dst = strconv.AppendInt(dst, n.TotalQueryableSamples, 10)
		if steps := n.SamplesReadPerStep; len(steps) > 0 {
			dst = append(dst, `,"samplesReadPerStep":`...)
			for i, x := range steps {
				dst = appendStep(dst, i, x.T, x.V)
			}
			dst = append(dst, ']')
		}
		dst = append(dst, `,"samplesRead":`...)
		dst = strconv.AppendInt(dst, n.SamplesRead, 10)
		dst = append(dst, `,"peakSamples":`...)
		dst = strconv.AppendInt(dst, int64(n.PeakSamples), 10)
		dst = append(dst, '}')
	}
	return append(dst, '}')
}

// appendKey appends a field's name, which needs no escapes.
func appendKey(dst []byte, name string) []byte {
	dst = append(dst, '"')
	dst = append(dst, name...)
	return append(dst, '"', ':')
}

// appendStep appends the i-th [time, samples] of an array, with the bracket or comma before it.
func appendStep(dst []byte, i int, t, n int64) []byte {
	dst = append(dst, "[,"[min(i, 1)])
	dst = append(dst, '[')
	dst = appendTime(dst, t)
	dst = append(dst, ',')
	dst = strconv.AppendInt(dst, n, 10)
	return append(dst, ']')
}
