package history_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/prometheus/client_golang/exp/api/remote"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"
	"github.com/prometheus/prometheus/storage"
)

// Store implements the storage of client_golang's handler, as Prometheus does: version 1 appends all of a request or
// nothing; version 2 appends what the database takes. The response is 400 if it refused samples. TestRemoteWritePrometheus
// of the module e2e writes to a Prometheus.
func (r *receiver) Store(req *http.Request, kind remote.WriteMessageType) (_ *remote.WriteResponse, err error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	a := &appending{app: r.db.Appender(req.Context()), resp: remote.NewWriteResponse()}
	if kind == remote.WriteV1MessageType {
		err = a.version1(body)
	} else {
		err = a.version2(body)
	}
	switch {
	case errors.Is(err, errRefused) && kind == remote.WriteV1MessageType:
		err = errors.Join(err, a.app.Rollback())
	case err == nil || errors.Is(err, errRefused):
		if failed := a.app.Commit(); failed != nil {
			a.resp.SetStatusCode(http.StatusInternalServerError)
			return a.resp, errors.Join(err, failed)
		}
	default:
		return a.resp, errors.Join(err, a.app.Rollback())
	}
	if err != nil {
		a.resp.SetStatusCode(http.StatusBadRequest)
	}
	return a.resp, err
}

var errRefused = errors.New("the database refused a sample")

// An appending is a request while it is appended.
type appending struct {
	app  storage.Appender
	resp *remote.WriteResponse
}

func (a *appending) version1(body []byte) error {
	var m prompb.WriteRequest
	if err := m.Unmarshal(body); err != nil {
		return err
	}
	b := labels.NewScratchBuilder(0)
	for _, s := range m.Timeseries {
		ls := s.ToLabels(&b, nil)
		for _, p := range s.Samples {
			if err := a.float(ls, p.Timestamp, p.Value); err != nil {
				return err
			}
		}
		for _, p := range s.Histograms {
			if err := a.histogram(ls, p.Timestamp, p); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *appending) version2(body []byte) (refused error) {
	var m writev2.Request
	if err := m.Unmarshal(body); err != nil {
		return err
	}
	b := labels.NewScratchBuilder(0)
	for _, s := range m.Timeseries {
		ls, err := s.ToLabels(&b, m.Symbols)
		if err != nil {
			return err
		}
		if len(s.Samples)+len(s.Histograms) == 0 || !ls.Has("__name__") {
			return fmt.Errorf("series %v has no samples, or no name", ls)
		}
		for _, p := range s.Samples {
			if err := a.float(ls, p.Timestamp, p.Value); errors.Is(err, errRefused) {
				refused = err
			} else if err != nil {
				return err
			}
		}
		for _, p := range s.Histograms {
			if err := a.histogram(ls, p.Timestamp, p); errors.Is(err, errRefused) {
				refused = err
			} else if err != nil {
				return err
			}
		}
	}
	return refused
}

func (a *appending) float(ls labels.Labels, at int64, v float64) error {
	_, err := a.app.Append(0, ls, at, v)
	if err == nil {
		a.resp.Samples++
	}
	return verdict(err, ls)
}

// A sentHistogram is a histogram of either version.
type sentHistogram interface {
	IsFloatHistogram() bool
	ToIntHistogram() *histogram.Histogram
	ToFloatHistogram() *histogram.FloatHistogram
}

func (a *appending) histogram(ls labels.Labels, at int64, h sentHistogram) (err error) {
	if h.IsFloatHistogram() {
		_, err = a.app.AppendHistogram(0, ls, at, nil, h.ToFloatHistogram())
	} else {
		_, err = a.app.AppendHistogram(0, ls, at, h.ToIntHistogram(), nil)
	}
	if err == nil {
		a.resp.Histograms++
	}
	return verdict(err, ls)
}

// verdict wraps what a client must not send again.
func verdict(err error, ls labels.Labels) error {
	if errors.Is(err, storage.ErrOutOfOrderSample) || errors.Is(err, storage.ErrOutOfBounds) ||
		errors.Is(err, storage.ErrDuplicateSampleForTimestamp) || errors.Is(err, storage.ErrTooOldSample) {
		return fmt.Errorf("%w: %w for series %v", errRefused, err, ls)
	}
	return err
}
