import{Ma as o,a as p,c as m}from"./chunk-KVLLS63V.js";m(p(o,null),document.getElementById("app"));
