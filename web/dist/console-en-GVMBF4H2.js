import{a as p,c as m,va as o}from"./chunk-WFXE65YW.js";m(p(o,null),document.getElementById("app"));
