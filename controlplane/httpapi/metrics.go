package httpapi

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"waypost"
)

type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	limited  *prometheus.CounterVec
	judged   *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) metrics {
	f := promauto.With(r)
	return metrics{
		requests: f.NewCounterVec(prometheus.CounterOpts{
			Name: "waypost_http_requests_total",
			Help: "Requests that the API has answered.",
		}, []string{"route", "method", "status"}),
		duration: f.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "waypost_http_request_duration_seconds",
			Help:    "Time from a request's headers to the end of its answer.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}, []string{"route", "method"}),
		limited: f.NewCounterVec(prometheus.CounterOpts{
			Name: "waypost_http_rate_limited_total",
			Help: "Requests refused with 429: by the limit of their key (requests) or workspace, because of failed attempts to authenticate (address, prefix, account), " +
				"or because too many are signing in from one network (sign-ins).",
		}, []string{"limit"}),
		judged: f.NewCounterVec(prometheus.CounterOpts{
			Name: "waypost_authentications_total",
			Help: "Credentials that were judged: API keys, session tokens and passwords; accepted, refused, or failed for another reason.",
		}, []string{"credential", "outcome"}),
	}
}

// authenticated counts a judged credential.
func (m metrics) authenticated(kind string, err error) {
	outcome := "accepted"
	switch waypost.CodeOf(err) {
	case "":
	case waypost.EUnauthorized, waypost.ESecondFactor, waypost.EForbidden, waypost.EInvalid:
		outcome = "refused"
	default:
		outcome = "failed"
	}
	m.judged.WithLabelValues(kind, outcome).Inc()
}

// observe counts a request. No label holds text of a client: the route is a pattern, and
// all methods without a route share one label.
func (m metrics) observe(r *http.Request, status int, took time.Duration) {
	_, route, ok := strings.Cut(r.Pattern, " ")
	if !ok {
		route = "none"
	}
	method := "other"
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPatch, http.MethodDelete:
		method = r.Method
	}
	if status == 0 {
		status = http.StatusOK // as net/http sends for a silent handler
	}
	m.requests.WithLabelValues(route, method, strconv.Itoa(status)).Inc()
	m.duration.WithLabelValues(route, method).Observe(took.Seconds())
}
