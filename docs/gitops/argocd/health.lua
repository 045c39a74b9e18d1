-- The health of a Realm or an ApiClient for Argo CD, which calls this with the object as obj.

local hs = { status = "Progressing", message = "Waiting for the operator to see this." }

-- The conditions count only when they are about the spec as it is now.
if obj.status == nil or obj.status.conditions == nil or obj.status.observedGeneration ~= obj.metadata.generation then
  return hs
end

local ready, stalled
for _, condition in ipairs(obj.status.conditions) do
  if condition.type == "Ready" then
    ready = condition
  elseif condition.type == "Stalled" then
    stalled = condition.status == "True"
  end
end
if ready == nil then
  return hs
end

hs.message = ready.message
if ready.status == "True" then
  hs.status = "Healthy"
elseif stalled then
  hs.status = "Degraded" -- until someone acts
elseif ready.reason == "Suspended" or ready.reason == "Expired" then
  hs.status = "Suspended" -- as the manifest says
end
-- All else passes when another object comes or is mended, such as the realm of a client or a token server.
-- Degraded would fail a sync that only has to wait for its next wave.
return hs
