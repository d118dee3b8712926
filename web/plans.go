package web

import (
	"fmt"
	"net/http"
	"strconv"
)

// How many plans are shown in detail.
const (
	defaultPlans = 20
	maxPlans     = 1000
)

// plansLimit reads how many plans are wanted in detail.
func plansLimit(text string) (int, error) {
	if text == "" {
		return defaultPlans, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > maxPlans {
		return 0, fmt.Errorf("limit is %.40q: want a number from 0 to %d", text, maxPlans)
	}
	return n, nil
}

// plans answers /api/v1/plans; ?limit= says how many plans in detail.
func (s *Server) plans(w http.ResponseWriter, r *http.Request) {
	n, err := plansLimit(r.URL.Query().Get("limit"))
	if err != nil {
		plain(w, http.StatusBadRequest, err.Error())
		return
	}
	s.writeJSON(w, s.opts.Plans(n))
}
