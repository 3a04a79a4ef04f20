package bench

import (
	"bufio"
	"os"
	"runtime"
	"strings"
)

// Machine is what the figures depend on beside the code.
type Machine struct {
	CPU   string `json:"cpu"`
	Cores int    `json:"cores"`
	OS    string `json:"os"`
	Go    string `json:"go"`
}

// ThisMachine describes the machine as far as it tells; what it does not is "unknown".
func ThisMachine() Machine {
	return Machine{
		CPU:   field("/proc/cpuinfo", "model name", ":"),
		Cores: runtime.NumCPU(),
		OS:    strings.Trim(field("/etc/os-release", "PRETTY_NAME", "="), `"`) + " " + runtime.GOOS + "/" + runtime.GOARCH,
		Go:    runtime.Version(),
	}
}

// field gives the first value of key in a file of lines KEY separator VALUE.
func field(path, key, separator string) string {
	const unknown = "unknown"
	f, err := os.Open(path)
	if err != nil {
		return unknown
	}
	defer func() { _ = f.Close() }() // it was only read
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if k, v, ok := strings.Cut(lines.Text(), separator); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return unknown
}

// loadAverage is how many processes were at work on the machine in the last minute: what
// was measured beside many others means little.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}
