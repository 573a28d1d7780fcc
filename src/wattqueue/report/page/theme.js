// Runs before anything is painted, so that a dark page never flashes white.
try { const kept = localStorage.getItem("wattqueue-theme"); if (kept) document.documentElement.dataset.theme = kept; } catch { /* storage may be forbidden */ }
