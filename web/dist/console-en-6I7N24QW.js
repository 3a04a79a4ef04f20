import{Oa as o,a as p,c as m}from"./chunk-CYSS3VWX.js";m(p(o,null),document.getElementById("app"));
