package main

import (
	"path/filepath"

	promlabel "github.com/prometheus/common/model"

	"github.com/taredb/tare/history/remotewrite"
	"github.com/taredb/tare/internal/config"
	"github.com/taredb/tare/stmtseries"
)

// remoteWriteFile has the position of remote write, in the directory of the history.
const remoteWriteFile = "remote-write.json"

// openSender opens what sends the series to a receiver, if there is one.
func (h *historyService) openSender(dir string) error {
	receiver := remoteReceiver(h.cfg.RemoteWrite)
	if receiver.URL == nil {
		return nil
	}
	types := make(map[string]promlabel.MetricType)
	help := make(map[string]string)
	for m := range stmtseries.Metric(stmtseries.NumMetrics) {
		types[m.String()], help[m.String()] = promlabel.MetricTypeCounter, m.Help()
	}
	types[stmtseries.Duration.String()] = promlabel.MetricTypeHistogram
	types[stmtseries.Info.String()] = promlabel.MetricTypeGauge
	s, err := remotewrite.New(remotewrite.Options{
		Receiver:  receiver,
		Instances: h.remoteInstances,
		File:      filepath.Join(dir, remoteWriteFile),
		State:     h.server.Data.State,
		Interval:  h.cfg.Interval,
		Metadata:  func(metric string) (promlabel.MetricType, string) { return types[metric], help[metric] },
		Log:       h.server.Log,
	})
	if err != nil {
		return err
	}
	h.sender = s
	return h.registry.Register(remotewrite.NewCollector(s))
}

// remoteReceiver returns the receiver of the options; without a URL if there is none.
func remoteReceiver(c config.RemoteWrite) remotewrite.Receiver {
	return remotewrite.Receiver{URL: c.URL.URL(), Version: c.Version, TokenFile: c.TokenFile, Tenant: c.Tenant, CAFile: c.CAFile}
}

// remoteInstances are the databases that are sent, the oldest first.
func (h *historyService) remoteInstances() []remotewrite.Instance {
	all := h.archive.Instances()
	out := make([]remotewrite.Instance, len(all))
	for i, in := range all {
		out[i] = remotewrite.Instance{Name: in.Hash, Samples: in.Samples, Until: in.Settled}
	}
	return out
}
