package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

// How many plans are shown in detail.
const (
	defaultPlans = 20
	maxPlans     = 1000
)

// plans answers /api/v1/plans; ?limit= says how many plans in detail.
func (s *Server) plans(w http.ResponseWriter, r *http.Request) {
	n := defaultPlans
	if text := r.URL.Query().Get("limit"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 0 || n > maxPlans {
			plain(w, http.StatusBadRequest, fmt.Sprintf("limit is %q: want a number from 0 to %d", text, maxPlans))
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if err := json.NewEncoder(w).Encode(s.opts.Plans(n)); err != nil {
		s.opts.Log.Debug("the plans were not read to their end", "error", err)
	}
}
