-- WattQueue: one line about the job's energy at the end of its output. Written by `wattqueue flux energy-line`, for the
-- job shell of Flux (lua.d of its configuration). It reads one small file, waits one second for storage that does not
-- answer, and whatever fails in it changes neither the job nor its status.
local folder = "@FOLDER@"

local function line ()
  if shell.info.rank ~= 0 then return end
  local name = string.gsub (shell.getenv ("FLUX_JOB_ID") or "", "^\198\146", "f")
  local pipe = io.popen ("id -u")
  local uid = pipe:read ("*l")
  pipe:close ()
  local file = io.popen ("timeout 1 cat " .. folder .. "/users/" .. uid .. "/jobs/running 2>/dev/null")
  for row in file:lines () do
    local job, at, joules, watts, label = string.match (row, "^(%S+) (%d+) (%d+) (%d+) (%S+)")
    if job == name then
      local wh = math.floor ((joules + watts * (os.time () - at)) / 3600)
      shell.log (string.format ("wattqueue: job %s used about %d Wh (%s, preliminary; `wattqueue job %s` has the final figure)", name, wh, label, name))
      break
    end
  end
  file:close ()
end

plugin.register { name = "wattqueue-energy", handlers = {
  { topic = "shell.exit", fn = function () pcall (line) end }
} }
