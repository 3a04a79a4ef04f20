import{Ra as o,a as p,c as m}from"./chunk-WDCRYSQI.js";m(p(o,null),document.getElementById("app"));
