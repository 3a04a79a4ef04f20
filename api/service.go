package api

import "time"

// Service names the service that answers.
type Service struct {
	Service string `json:"service" enum:"waypost"`
	Version string `json:"version"`
}

// Health describes a control plane.
type Health struct {
	Status      string    `json:"status" enum:"healthy,unhealthy"`
	Timestamp   time.Time `json:"timestamp"`
	Version     string    `json:"version"`
	KGSPoolSize int64     `json:"kgs_pool_size" doc:"Codes that this region can still issue."`
	Database    string    `json:"database" enum:"connected,disconnected"`
}
